"""The seeds' own records as the input of pipelines, and their replicas as plain values, compared whole: types and rows."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from changeling.log import log_tables
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from tests.golden.test_golden import FOLDER, records_of
from tests.log.lakes import Shop

Row = dict[str, Any]
UTC = "timestamp[us, tz=UTC]"
"""The type of a column that holds moments."""


@dataclass(frozen=True)
class Contents:
    """Columns with their types, and rows in an order of their own."""

    columns: dict[str, str]
    rows: list[Row]


def contents(columns: dict[str, str], rows: Iterable[Row]) -> Contents:
    """What a table must hold; a column that a row does not mention is NULL in it."""
    return Contents(columns, sorted(({name: row.get(name) for name in columns} for row in rows), key=repr))


def now(made: Shop, table: str) -> Contents:
    """A replica as it is now, read without Spark."""
    found = made.pipeline.current(table)
    assert found is not None, f"there is no replica of {table}"
    return _of(found[0])


def then(made: Shop, table: str, **when: Any) -> Contents:
    """A replica as it was at some time, read by Spark."""
    return _of(made.pipeline.replica(table, **when).toArrow())


def stored(made: Shop, name: str) -> Contents:
    """A table of the replicas' namespace by its own name, such as a history."""
    found = tables_of(load(made.file)).in_namespace("shop_replica").load(name)
    assert found is not None, f"there is no table {name}"
    return _of(found.scan().to_arrow())


def quarantined(made: Shop, table: str) -> list[tuple[str, str | None, str | None]]:
    """What the replica of a table could not hold: key, column and value; neither of them for a row that is stale."""
    rows = [row for row in made.rows(log_tables.QUARANTINE) if row["table"]["name"] == table]
    return sorted((row["key"], row["column"], row["value"]) for row in rows)


def _of(found: pa.Table) -> Contents:
    # An empty column of text comes with long offsets from PyIceberg.
    columns = {field.name: str(field.type).replace("large_", "") for field in found.schema}
    # Moments equal one another whatever their zone is called.
    texts = [{name: row[name] for name in columns} for row in found.to_pylist()]
    return Contents(columns, sorted(texts, key=repr))


def records(case: str) -> list[str]:
    """The records of a golden case, `format/case`."""
    return [row["value"] for row in records_of(FOLDER / case)]


def messages(case: str, topic: str, start: int = 0) -> list[str]:
    """The same as `kcat -J` prints them, in a topic of the test's choice."""
    rows = records_of(FOLDER / case)
    return [message(topic, row["value"], start + place, row.get("key")) for place, row in enumerate(rows)]


def message(topic: str, value: str, offset: int = 0, key: str | None = None) -> str:
    """One record as `kcat -J` prints it."""
    return json.dumps({"topic": topic, "partition": 0, "offset": offset, "key": key, "payload": value})


def source(name: str, format: str, **more: Any) -> Row:
    """A source that reads the files of a folder of its own."""
    return {"name": name, "type": "files", "path": f"in/{name}/*", "format": format, **more}
