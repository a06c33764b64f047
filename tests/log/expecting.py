"""What must lie in the log and in the rejects: whole rows, made by `decode` from the same records."""

from typing import Any

import pyarrow as pa

import changeling
from changeling.formats.meta_template import with_whole_meta
from changeling.model.table import TableSchema, schema_from_json

Row = dict[str, Any]
NAMELESS = {"catalog": None, "schema": None, "name": ""}
"""What the registry calls the table of records that name none."""


def expected(
    records: pa.RecordBatch, format: str, source: str, batch: int = 1, **options: Any
) -> tuple[list[Row], list[Row]]:
    """The changes of these records as rows of the log, each with its schema instead of a number, and their rejects."""
    changes, rejects = changeling.decode(records, format, source=source, **options)
    rows = changes.drop_columns(["schema_id"]).to_pylist()
    for row in rows:
        carried = None if row["schema"] is None else schema_from_json(row["schema"])
        row |= {"schema": carried and TableSchema(carried.columns, carried.key), "batch": batch}
    kept = rejects.drop_columns(["feature"]).to_pylist()
    return rows, [rejected(row, source, batch) for row in kept]


def rejected(row: Row, source: str, batch: int = 1) -> Row:
    """A row of the rejects."""
    origin = row["origin"]
    place = f"{origin['file']}#{origin['record']}"
    if origin["file"] is None:
        place = f"{origin['topic']}/{origin['partition']}@{origin['offset']}"
    return {"id": f"{source}:{place}", "source": source, **row, "batch": batch}


def with_meta(changes: pa.Table) -> list[Row]:
    """Rows of the log, with what it leaves out of `meta`."""
    return [row for batch in changes.combine_chunks().to_batches() for row in with_whole_meta(batch).to_pylist()]


def resolved(rows: list[Row], schemas: list[Row]) -> list[Row]:
    """Rows of the log with the schema that each number stands for; it must be one of the same table and source."""
    known = {row["id"]: row for row in schemas}
    found = []
    for row in rows:
        schema = known[row["schema_id"]] if row["schema_id"] is not None else None
        if schema is not None:
            assert (schema["source"], schema["table"]) == (row["source"], row["table"] or NAMELESS)
        carried = None if schema is None else schema_from_json(schema["schema"])
        found.append({**{name: row[name] for name in row if name != "schema_id"}, "schema": carried})
    return found


def in_order(rows: list[Row]) -> list[Row]:
    """Rows by where their records lay."""
    return sorted(rows, key=lambda row: (*(row["origin"][name] for name in ("file", "record")), row.get("position")))
