"""Wire records of every format for the tests on Spark, and tables in an order that can be compared."""

import json
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from changeling.model import arrow_layouts
from tests.golden import test_golden as golden

BROKEN = [b'{"op": ', b"\xff\xfe", b"[[]]", b""]
Group = tuple[dict[str, Any], list[dict[str, Any]]]


def groups(name: str) -> list[Group]:
    """The golden records of a format by the reading options that they need, each group with some that are broken."""
    found: dict[str, Group] = {}
    for case in sorted(path.parent for path in golden.FOLDER.glob(f"{name}/*/changes.jsonl")):
        options = golden.options_of(case, "read")
        _, rows = found.setdefault(json.dumps(options, sort_keys=True), (options, []))
        rows.extend(golden.records_of(case))
    given = list(found.values()) or [({}, [])]
    return [(options, [*rows, *({"value": value} for value in BROKEN)]) for options, rows in given]


def records(rows: list[dict[str, Any]], ordinal: int) -> pa.Table:
    """A table of layout `RECORDS`, each row with an origin of its own."""
    return pa.Table.from_pylist(
        [
            {
                "value": _bytes(row.get("value")),
                "key": _bytes(row.get("key")),
                "headers": [{"name": name, "value": _bytes(value)} for name, value in _pairs(row.get("headers"))]
                or None,
                "topic": row.get("topic"),
                "origin": {"file": f"file {ordinal}", "ordinal": ordinal, "record": number},
            }
            for number, row in enumerate(rows)
        ],
        arrow_layouts.RECORDS,
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _pairs(headers: Any) -> list[tuple[str, Any]]:
    return list(headers.items()) if isinstance(headers, dict) else [tuple(pair) for pair in headers or ()]


def union(frames: list[DataFrame]) -> DataFrame:
    return reduce(DataFrame.union, frames)


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    """The rows by origin; those of one record stay in their order."""
    return sorted(table.to_pylist(), key=lambda row: (row["origin"]["ordinal"], row["origin"]["record"]))


def lines_file(path: Path, name: str) -> tuple[list[bytes], dict[str, Any]]:
    """Writes records of a format, one a line; returns them, and the options to read them with."""
    options, rows = groups(name)[0]
    values = [row["value"] for row in rows if isinstance(row.get("value"), str)]
    lines = [value.encode() for value in values if value and "\n" not in value]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return lines, options
