"""How the tables of a pipeline look: names, columns, what they are sorted and partitioned by."""

from dataclasses import dataclass

import pyarrow as pa

from changeling.model import layout

VERSION = 1
"""The layout that this code writes; a table says its own in the property `changeling.layout`."""
MOMENT = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Table:
    """One table of a pipeline."""

    name: str
    columns: pa.Schema
    days: str | None = None
    """The moment by whose day it is partitioned: retention drops whole days."""
    sort: tuple[str, ...] = ()
    """What files are sorted by when they are compacted."""


CHANGES = Table(
    "changes",
    pa.schema(
        [
            *(field for field in layout.CHANGES if field.name != "schema"),
            ("batch", pa.int64()),
            ("ingested_at", MOMENT),
        ]
    ),
    days="ingested_at",
    sort=("table.name", "position"),
)
"""The log. `batch` numbers the batches of a source; `ingested_at` is when the batch was read."""

REJECTS = Table(
    "rejects",
    pa.schema(
        [
            ("id", pa.string()),
            ("source", pa.string()),
            *(field for field in layout.REJECTS if field.name != "feature"),
            ("batch", pa.int64()),
            ("ingested_at", MOMENT),
        ]
    ),
    days="ingested_at",
)
"""Records that gave no change, whole. `id` is the source and the place of the record in it."""

SCHEMAS = Table(
    "schemas",
    pa.schema(
        [
            ("id", pa.int64()),
            ("source", pa.string()),
            ("table", layout.TABLE),
            ("version", pa.int32()),
            ("position", pa.string()),
            ("origin", pa.string()),
            ("status", pa.string()),
            ("schema", pa.string()),
            ("note", pa.string()),
            ("registered_at", MOMENT),
        ]
    ),
)
"""The schema registry. `position` is where a version begins to hold, null from the start on; `version` counts per table."""

BATCHES = Table(
    "batches",
    pa.schema(
        [
            ("source", pa.string()),
            ("batch", pa.int64()),
            ("attempt", pa.int32()),
            ("kind", pa.string()),
            ("plan", pa.string()),
            ("planned_at", MOMENT),
        ]
    ),
)
"""What each batch was to read, written before it was read. Of two attempts at one batch the later counts."""

TABLES = (CHANGES, REJECTS, SCHEMAS, BATCHES)
