"""Changes that a feed cannot publish, among the rejects of everything else."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from changeling.cli.main import main
from changeling.iceberg.conditions import EVERYTHING, Condition
from changeling.iceberg.failpoints import FailpointReached
from changeling.iceberg.reader import Tables
from changeling.iceberg.table_definition import TableDefinition
from changeling.log.log_tables import REJECTS
from tests.log.lakes import Shop, shop

pytestmark = pytest.mark.usefixtures("spark")

USERS: dict[str, Any] = {
    "name": "drop",
    "type": "files",
    "path": "in/*",
    "format": "ydb-json",
    "key": ["id"],
    "table": "users",
    "columns": {"id": "int64", "name": "string"},
}


def update(number: int, name: str) -> str:
    return f'{{"key":[{number}],"update":{{"name":"{name}"}},"ts":[{1_700_000_000_000 + number},1]}}'


def rejected(made: Shop) -> list[tuple[str, int]]:
    return sorted((row["source"], row["batch"]) for row in made.rejects())


def test_only_those_of_the_feed_and_its_point_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = shop(tmp_path, USERS)
    made.write("1.json", update(1, "a"), *["nonsense"] * 5)
    made.pipeline.run(once=True)
    # Arcion's JSON has no text that is null.
    made.pipeline.sql(
        "ALTER TABLE users ADD CHANGEFEED one WITH (FORMAT = 'arcion-json', MODE = 'NEW_AND_OLD_IMAGES');"
        "ALTER TABLE users ADD CHANGEFEED two WITH (FORMAT = 'arcion-json', MODE = 'NEW_AND_OLD_IMAGES')"
    )
    made.write("2.json", update(2, "null"), update(3, "b"), update(4, "null"))
    made.pipeline.run(once=True)
    made.write("3.json", update(5, "null"))
    of_files = [("drop", 1)] * 5
    of_feeds = [(f"feed {name}", 2) for name in ("one", "two") for _ in range(2)]
    assert rejected(made) == of_files + of_feeds

    looked_at: list[list[str]] = []
    whole = Tables.rows

    def rows(
        self: Tables, table: TableDefinition, where: Condition = EVERYTHING, columns: tuple[str, ...] = ("*",)
    ) -> pa.Table:
        found = whole(self, table, where, columns)
        if table is REJECTS:
            looked_at.append(found.column("id").to_pylist())
        return found

    monkeypatch.setattr(Tables, "rows", rows)
    monkeypatch.setenv("CHANGELING_FAILPOINT", "feed.before")
    with pytest.raises(FailpointReached):
        made.pipeline.run(once=True)
    monkeypatch.delenv("CHANGELING_FAILPOINT")
    made.pipeline.run(once=True)
    # The interrupted step kept its reject already.
    assert [[id.partition(" of ")[0] for id in found] for found in looked_at] == [[], ["feed one"], []]
    assert rejected(made) == [*of_files, *of_feeds[:2], ("feed one", 3), *of_feeds[2:], ("feed two", 3)]


def test_a_feed_that_can_publish_nothing_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = shop(tmp_path, USERS)
    made.write("1.json", update(1, "a"))
    made.pipeline.run(once=True)
    made.pipeline.sql(
        "ALTER TABLE users ADD CHANGEFEED one WITH (FORMAT = 'arcion-json', MODE = 'NEW_AND_OLD_IMAGES');"
        "ALTER TABLE users ADD CHANGEFEED keys WITH (FORMAT = 'JSON', MODE = 'KEYS_ONLY')"
    )
    monkeypatch.chdir(made.folder)
    why = "`changeling rejects` shows why"
    made.write("2.json", update(2, "null"), update(3, "null"))
    assert main(["run", made.file.name, "--once", "--log-format", "text"]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("WARNING ")[2] for line in lines if "WARNING" in line] == [
        f"shop: feed one: point 2, 2 changes, 2 rejected as 0 records; {why}"
    ]
    assert lines[-1] == f"feed one: 2 changes rejected: {why}"
    # What an earlier run rejected does not count.
    assert main(["run", made.file.name, "--once"]) == 0
    assert why not in capsys.readouterr().err

    made.write("3.json", update(4, "null"), update(5, "b"))
    assert main(["run", made.file.name, "--once", "--json"]) == 3
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (warned,) = (one for one in events if one.get("level") == "warning")
    assert [warned[name] for name in ("event", "feed", "changes", "records", "rejected")] == ["feed", "one", 2, 1, 1]
    assert [(one.get("source"), one.get("feed"), one["rejected"]) for one in events if one["event"] == "total"] == [
        *[("drop", None, 0), (None, "one", 1)],
    ]
