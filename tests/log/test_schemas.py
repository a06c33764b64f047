"""Schemas that records carry, in the log: registered as they come, in place by position, and by the table's policy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeling.log import log_tables as tables
from changeling.model import arrow_layouts
from changeling.model.position import decode
from tests.log.expecting import Row, expected, in_order, resolved
from tests.log.lakes import Shop
from tests.log.lakes import log_only as shop
from tests.log.records import dataworks, debezium, transferia, ydb

Line = Callable[[int], str]
"""A record of some version of its table's schema, at a position."""


def _transferia(**columns: str) -> Line:
    return lambda number: transferia(number, columns)


def _dataworks(**columns: str) -> Line:
    return lambda number: dataworks(number, columns)


def _ydb(**columns: str) -> Line:
    # Number 4 is the one that the registry gives to the first version of these.
    return lambda number: ydb(number, columns, version=4)


VERSIONS: dict[str, tuple[str, list[Line]]] = {
    "dbz": (
        "debezium-json",
        [
            debezium,
            lambda number: debezium(number, extra=True),
            lambda number: debezium(number, extra=True, kind="int64"),
            lambda number: debezium(number, kind="int64"),
        ],
    ),
    "tr": (
        "transferia",
        [
            _transferia(id="int64", n="int32"),
            _transferia(id="int64", n="int32", note="utf8"),
            _transferia(id="int64", n="int64", note="utf8"),
            _transferia(id="int64", n="int64"),
        ],
    ),
    # Its messages know one type of integers.
    "dw": (
        "dataworks-message",
        [
            _dataworks(id="LONG", n="LONG"),
            _dataworks(id="LONG", n="LONG", note="STRING"),
            _dataworks(id="LONG", n="LONG", note="STRING"),
            _dataworks(id="LONG", n="LONG"),
        ],
    ),
    **{
        name: (
            "ydb-json",
            [
                _ydb(id="Uint64", n="Int32"),
                _ydb(id="Uint64", n="Int32", note="Utf8"),
                _ydb(id="Uint64", n="Int64", note="Utf8"),
                _ydb(id="Uint64", n="Int64"),
            ],
        )
        for name in ("ydb", "twin")
    },
}
"""For each source its dialect, and records of four versions: a column is added, one is widened, one is dropped."""
OPTIONS: dict[str, dict[str, Any]] = {
    name: {"table": "users", "key": ["id"]} if form == "ydb-json" else {"key": ["id"]}
    for name, (form, _) in VERSIONS.items()
}
SOURCES = [
    {"name": name, "type": "files", "path": f"in/{name}/*", "format": form, "batch_files": 1, **OPTIONS[name]}
    for name, (form, _) in VERSIONS.items()
]
FILES = [
    [(10, 0), (20, 0)],
    [(30, 0), (40, 1), (50, 1)],
    [(60, 1), (70, 2), (80, 3), (90, 3)],
]
"""Positions and versions of the records in each file."""
LATE = [(5, 0), (45, 0), (75, 1)]
BACK = [(100, 0), (110, 0)]


class Given:
    """The pipeline over all sources, and what it was given."""

    def __init__(self, folder: Path) -> None:
        self.made = shop(folder, *SOURCES)
        self._given: dict[str, list[Row]] = {name: [] for name in VERSIONS}
        self._files = 0

    def write(self, places: list[tuple[int, int]]) -> None:
        """One more file for each source."""
        for name, (form, versions) in VERSIONS.items():
            lines = [versions[version](position) for position, version in places]
            if form == "ydb-json":
                # Rows follow the record that declares their schema.
                lines += [ydb(position + 1) for position, _ in places]
            file = self.made.write(f"{name}/{self._files}.json", *lines)
            self._given[name] += [
                {"value": line.encode(), "origin": {"file": str(file), "ordinal": self._files, "record": number}}
                for number, line in enumerate(lines)
            ]
        self._files += 1

    def log(self) -> dict[str, list[Row]]:
        """What `decode` gives for all of it, each file in a batch of its own."""
        found = {}
        for name, (form, _) in VERSIONS.items():
            records = pa.RecordBatch.from_pylist(self._given[name], arrow_layouts.RECORDS)
            rows, rejects = expected(records, form, name, **OPTIONS[name])
            assert rejects == []
            found[name] = in_order([{**row, "batch": row["origin"]["ordinal"] + 1} for row in rows])
        return found


def in_log(made: Shop) -> dict[str, list[Row]]:
    rows = in_order(resolved(made.table(tables.CHANGES).to_pylist(), made.table(tables.SCHEMAS).to_pylist()))
    return {name: [row for row in rows if row["source"] == name] for name in VERSIONS}


def by_source(schemas: list[Row]) -> dict[str, list[Row]]:
    """The rows of each source. Sources register schemas at the same time: numbers grow, whoever is first."""
    assert [row["id"] for row in schemas] == list(range(1, len(schemas) + 1))
    unnumbered = [{name: value for name, value in row.items() if name != "id"} for row in schemas]
    return {name: [row for row in unnumbered if row["source"] == name] for name in VERSIONS}


def registered(
    rows: dict[str, list[Row]], expected_rows: Sequence[tuple[str, int, int, str | None]]
) -> dict[str, list[Row]]:
    """Rows of the registry: source, version, the position of the first change that has it, what it changes."""
    found: dict[str, list[Row]] = {name: [] for name in VERSIONS}
    for source, version, place, note in expected_rows:
        first = next(row for row in rows[source] if row["schema"] is not None and _place(row) == place)
        found[source].append(
            {
                "source": source,
                "table": first["table"],
                "version": version,
                "position": first["position"],
                "origin": "carried",
                "status": "accepted",
                "schema": first["schema"].to_json(),
                "note": note,
            }
        )
    return found


def _place(row: Row) -> int:
    """The position that the record was given; Debezium's log positions are ten times that."""
    first = decode(row["position"])[0]
    return first // 10 if row["source"] == "dbz" else first


@dataclass(frozen=True)
class Stage:
    """The tables after a run, and the rows that the log must have."""

    schemas: list[Row]
    log: dict[str, list[Row]]
    due: dict[str, list[Row]]


@pytest.fixture(scope="module")
def stages(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Stage]:
    """After the first files, after late ones, after some in which an old schema holds again."""
    given = Given(tmp_path_factory.mktemp("schemas"))
    found = []
    for files in (FILES, [LATE], [BACK]):
        for places in files:
            given.write(places)
        given.made.pipeline.run(once=True)
        schemas = given.made.table(tables.SCHEMAS).sort_by("id").to_pylist()
        found.append(Stage(schemas, in_log(given.made), given.log()))
    return found


WIDER, DROPPED, ADDED = "widens n from int32 to int64", "drops note", "adds note"
CARRIED: list[tuple[str, int, int, str | None]] = [
    *((name, 1, 10, None) for name in VERSIONS),
    *((name, 2, 40, ADDED) for name in VERSIONS),
    *((name, 3, 70, WIDER) for name in VERSIONS if name != "dw"),
    *((name, 4, 80, DROPPED) for name in VERSIONS if name != "dw"),
    ("dw", 3, 80, DROPPED),
]


def test_each_dialect_registers_the_schemas_that_its_records_carry(stages: list[Stage]) -> None:
    first, _, _ = stages
    assert by_source(first.schemas) == registered(first.due, CARRIED)
    assert first.log == first.due


def test_late_records_with_old_schemas_add_nothing(stages: list[Stage]) -> None:
    first, late, _ = stages
    assert late.schemas == first.schemas
    assert late.log == late.due


def test_an_old_schema_that_holds_again_is_a_version_with_a_higher_number(stages: list[Stage]) -> None:
    _, late, back = stages
    expected_rows = [(name, 5, 100, "narrows n from int64 to int32") for name in ("dbz", "tr", "ydb", "twin")]
    before, new = by_source(late.schemas), registered(back.due, expected_rows)
    assert by_source(back.schemas) == {name: before[name] + new[name] for name in VERSIONS}
    assert back.log == back.due
