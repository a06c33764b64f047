"""A schema that changes: `evolve` takes what fits and quarantines the rest, `ignore` takes all, `fail` stops."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeling.log import log_tables as tables
from changeling.model import arrow_layouts
from tests.log.commands import run_once
from tests.log.expecting import Row, expected, in_order, rejected, resolved
from tests.log.lakes import Shop
from tests.log.lakes import log_only as shop
from tests.log.records import debezium

OLD = [debezium(1), debezium(2)]
MIXED = [debezium(3), debezium(4, kind="string"), debezium(5), debezium(6, kind="string")]
BOTH = """
  version 1: (id int64 key, n int32)
  new:       (id int64 key, n string)"""
CONFLICT = (
    "the schema of shop.public.users changed in a way that does not fit its rows (column n was int32 and is string):"
    + BOTH
)


def pipeline(folder: Path, **policies: str) -> Shop:
    """A source for each policy, each with files of its own, one a batch."""
    sources: list[dict[str, Any]] = [
        {
            "name": name,
            "type": "files",
            "path": f"in/{name}/*",
            "format": "debezium-json",
            "key": ["id"],
            "batch_files": 1,
        }
        for name in policies
    ]
    rules = [{"name": "public.users", "source": name, "schema": policy} for name, policy in policies.items()]
    return shop(folder, *sources, tables=rules)


def write(made: Shop, source: str, *files: list[str]) -> list[Row]:
    """The records of a source's files, each with its place."""
    rows = []
    for ordinal, lines in enumerate(files):
        file = made.write(f"{source}/{ordinal}.json", *lines)
        rows += [
            {"value": line.encode(), "origin": {"file": str(file), "ordinal": ordinal, "record": number}}
            for number, line in enumerate(lines)
        ]
    return rows


def due(rows: list[Row], source: str, batch: int | None = None) -> list[Row]:
    """Rows of the log: each file is a batch, unless it is another one."""
    log, rejects = expected(
        pa.RecordBatch.from_pylist(rows, arrow_layouts.RECORDS), "debezium-json", source, key=["id"]
    )
    assert rejects == []
    return in_order([{**row, "batch": batch or row["origin"]["ordinal"] + 1} for row in log])


def due_rejects(rows: list[Row], source: str) -> list[Row]:
    nothing = dict.fromkeys(("key", "headers", "topic"))
    origins = [{**dict.fromkeys(field.name for field in arrow_layouts.ORIGIN), **row["origin"]} for row in rows]
    return [
        rejected({"reason": CONFLICT, "origin": origin, "raw": row["value"], **nothing}, source, batch=2)
        for row, origin in zip(rows, origins, strict=True)
    ]


def in_log(made: Shop, source: str) -> list[Row]:
    rows = resolved(made.table(tables.CHANGES).to_pylist(), made.table(tables.SCHEMAS).to_pylist())
    return in_order([row for row in rows if row["source"] == source])


def versions(made: Shop, source: str) -> list[tuple[Any, ...]]:
    """Version, status and note of each version, in the order of numbers: which source gets the next one is open."""
    rows = made.table(tables.SCHEMAS).sort_by("id").to_pylist()
    names = ("version", "status", "note")
    return [tuple(row[name] for name in names) for row in rows if row["source"] == source]


def counts(made: Shop, source: str) -> tuple[int, ...]:
    (row,) = (row for row in made.pipeline.status() if row["kind"] == "source" and row["name"] == source)
    return tuple(row[name] for name in ("read", "accepted", "rejected", "changes"))


def test_a_conflict_is_kept_aside_or_ignored_and_what_was_aside_can_be_let_in(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = pipeline(tmp_path, strict="evolve", easy="ignore")
    strict, easy = (write(made, name, OLD, MIXED) for name in ("strict", "easy"))
    assert run_once(made) == 3
    fitting, clashing = strict[:3] + strict[4:5], [strict[3], strict[5]]
    assert in_log(made, "strict") == due(fitting, "strict")
    assert in_order(made.rejects()) == due_rejects(clashing, "strict")
    assert in_log(made, "easy") == due(easy, "easy")
    assert versions(made, "strict") == [(1, "accepted", None), (2, "aside", CONFLICT)]
    assert versions(made, "easy") == [(1, "accepted", None), (2, "ignored", "column n was int32 and is string")]
    assert (counts(made, "strict"), counts(made, "easy")) == ((6, 4, 2, 4), (6, 6, 0, 6))
    # A new pipeline object knows what was quarantined.
    assert made.pipeline.replay() == {"strict": (0, 2)}
    assert in_order(made.rejects()) == due_rejects(clashing, "strict")
    made = pipeline(tmp_path, strict="ignore", easy="ignore")
    assert made.pipeline.replay() == {"strict": (2, 0)}
    assert made.rejects() == []
    assert in_log(made, "strict") == in_order(due(fitting, "strict") + due(clashing, "strict", batch=4))
    assert versions(made, "strict")[2:] == [(3, "ignored", "column n was int32 and is string")]
    assert counts(made, "strict") == (6, 6, 0, 6)


@pytest.mark.parametrize(
    ("lines", "changed", "new", "note"),
    [
        ([debezium(3), debezium(4, extra=True)], "adds note", "(id int64 key, n int32, note string)", "adds note"),
        (
            [debezium(3, kind="string"), debezium(4)],
            "column n was int32 and is string",
            "(id int64 key, n string)",
            None,
        ),
    ],
    ids=["fitting", "conflict"],
)
def test_fail_stops_the_run_and_evolve_goes_on(
    lines: list[str],
    changed: str,
    new: str,
    note: str | None,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = pipeline(tmp_path, bus="fail")
    rows = write(made, "bus", OLD, lines)
    assert run_once(made) == 1
    error = (
        f"source bus: the schema of shop.public.users changed ({changed}), and its policy is to fail:\n"
        "  version 1: (id int64 key, n int32)\n"
        f"  new:       {new}\n"
        "Set `schema: evolve` for this table to take the new version, or `schema: ignore` to keep the old one."
    )
    # Every further line is indented, so that none looks like another message.
    printed = error.replace("\nSet", "\n  Set")
    assert capsys.readouterr().err.endswith(f"changeling: {printed}\n")
    assert in_log(made, "bus") == due(rows[:2], "bus")
    assert made.rejects() == []
    assert versions(made, "bus") == [(1, "accepted", None)]
    assert made.pipeline.status()[0]["last_error"] == error
    made = pipeline(tmp_path, bus="evolve")
    if note is None:
        assert run_once(made) == 3
        assert in_log(made, "bus") == due(rows[:2] + rows[3:], "bus")
        assert made.rejects() == due_rejects(rows[2:3], "bus")
        assert versions(made, "bus")[1:] == [(2, "aside", CONFLICT)]
    else:
        assert run_once(made) == 0
        assert in_log(made, "bus") == due(rows, "bus")
        assert made.rejects() == []
        assert versions(made, "bus")[1:] == [(2, "accepted", note)]
