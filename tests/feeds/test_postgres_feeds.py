"""Feeds of real PostgreSQL tables: YDB's statements give YDB's records, and only what was committed is published."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from changeling.postgres.connection import connect
from tests.feeds.test_ydb_samples import SAMPLES, like, published
from tests.postgres.server import Database
from tests.sources.captures import capture

pytestmark = pytest.mark.usefixtures("spark")

TABLES = {
    "changed": ("NewAndOldImagesLog", "NewAndOldImagesLogDebezium", "OldImageLogDebezium"),
    "erased": ("UpdatesLog", "KeysOnlyLog", "KeysOnlyLogDebezium"),
    "scanned": ("InitialScan",),
    "scanned_too": ("InitialScanDebezium",),
}
WIDE = ", ".join(f"c{number} integer" for number in range(8))


def sample(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SAMPLES / f"{name}.json").read_text())
    return found


def statements(table: str) -> list[str]:
    """The statements of a sample as PostgreSQL has them."""
    found = []
    for text in sample(TABLES[table][0])["queries"]:
        plain = re.sub(r"`/Root/Table`", table, text).rstrip(";")
        if plain.startswith("UPSERT"):
            plain = f"INSERT{plain.removeprefix('UPSERT')} ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        found.append(plain)
    return found


def test_the_samples_of_ydb_on_tables_of_postgresql(tmp_path: Path, database: Database) -> None:
    database.execute(*(f"CREATE TABLE {table} (key bigint PRIMARY KEY, value bigint)" for table in TABLES))
    database.execute(
        f"CREATE TABLE wide (id integer PRIMARY KEY, {WIDE})", "INSERT INTO wide VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0)"
    )
    database.execute(*(statements(table)[0] for table in ("scanned", "scanned_too")))
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    for table, names in TABLES.items():
        for name in names:
            said = sample(name)
            scan = said["options"].get("INITIAL_SCAN", False)
            made.pipeline.sql(
                f"ALTER TABLE {table} ADD CHANGEFEED {name} WITH (FORMAT = '{said['format']}', MODE = '{said['mode']}', INITIAL_SCAN = {scan})"
            )
    made.pipeline.sql(
        """ALTER TABLE wide ADD CHANGEFEED parts WITH (FORMAT = 'JSON', MODE = 'UPDATES'),
        ADD CHANGEFEED timed WITH (FORMAT = 'DEBEZIUM_JSON', MODE = 'KEYS_ONLY')"""
    )
    for table in TABLES:
        database.execute(*statements(table)[table.startswith("scanned") :])
    began = int(time.time() * 1000)
    with connect(database.url) as other, connect(database.url) as third:
        other.execute("BEGIN")
        other.execute("UPDATE wide SET c3 = 7")
        third.execute("BEGIN")
        third.execute("INSERT INTO wide (id) VALUES (2)")
        made.pipeline.run(once=True)
        assert published(made, "parts") == []
        third.execute("ROLLBACK")
        other.execute("COMMIT")
    ended = int(time.time() * 1000)
    made.pipeline.run(once=True)
    for name in (name for names in TABLES.values() for name in names):
        found = published(made, name, sample(name)["format"])
        assert found == like(found, sample(name)["expected_records"]), name
    assert published(made, "parts") == [{"key": [1], "update": {"c3": 7}}]
    (timed,) = published(made, "timed")
    assert began <= timed["payload"]["source"]["ts_ms"] <= ended
    for feed in made.pipeline.feeds():
        assert not made.pipeline.verify_feed(feed.name).faults, feed.name
