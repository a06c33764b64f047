"""Feeds of real PostgreSQL tables: YDB's statements give YDB's records, and only what was committed is published."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from changeling.model.errors import ChangelingError
from changeling.postgres.connection import connect
from tests.feeds.exact_json import exact
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
    database.execute(
        "CREATE TABLE odd (n numeric(10,2) PRIMARY KEY, note text, d float8, f float4, at timestamptz, j jsonb, x numeric)",
        """INSERT INTO odd VALUES (1.10, 'a', 1, 0.1, 'infinity', '{"a": 1}', 2.50)""",
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
    made.pipeline.sql(
        """ALTER TABLE odd ADD CHANGEFEED odd_parts WITH (FORMAT = 'JSON', MODE = 'UPDATES', INITIAL_SCAN = TRUE),
        ADD CHANGEFEED odd_events WITH (FORMAT = 'debezium-json', MODE = 'NEW_AND_OLD_IMAGES', INITIAL_SCAN = TRUE)"""
    )
    database.execute("UPDATE odd SET note = 'b'")
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
        assert exact(found) == exact(like(found, sample(name)["expected_records"])), name
    assert published(made, "parts") == [{"key": [1], "update": {"c3": 7}}]
    # What the replica cannot hold is no part of a record, and what did not change is no part of an update. Fractions are texts here.
    assert published(made, "odd_parts") == [
        {"key": ["1.1"], "update": {"note": "a", "d": "1.0", "f": "0.1", "at": None, "j": {"a": 1}, "x": ".25e1"}},
        {"key": ["1.1"], "update": {"note": "b"}},
    ]
    assert [
        (record.key, json.loads(record.value or b"")["op"]) for record in made.pipeline.read_feed("odd_events")
    ] == [
        (b'{"n":"1.10"}', "r"),
        (b'{"n":"1.10"}', "u"),
    ]
    (timed,) = published(made, "timed")
    assert began <= timed["payload"]["source"]["ts_ms"] <= ended
    for feed in made.pipeline.feeds():
        assert not made.pipeline.verify_feed(feed.name).faults, feed.name
    # Readers could not find the rows again under another key.
    database.execute("ALTER TABLE wide DROP CONSTRAINT wide_pkey, ADD PRIMARY KEY (c3)", "UPDATE wide SET c4 = 1")
    with pytest.raises(ChangelingError, match=r"the key of .*wide was \(id\) and is \(c3\) now"):
        made.pipeline.run(once=True)
    assert len(published(made, "parts")) == 1
