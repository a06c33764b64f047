"""The tables of the log: names, columns, what they are sorted and partitioned by."""

import pyarrow as pa

from changeling.iceberg.table_definition import TableDefinition
from changeling.model import arrow_layouts

VERSION = 3
"""The layout that this code writes; a table has its own in the property `changeling.layout`.

Since 3, `meta` may be a template (`formats/meta_template.py`): what was written before stays as it is."""
MOMENT = pa.timestamp("us", "UTC")
DROPPED = "changeling.dropped"
"""The property of the log with the first day of which it still has all changes; without it the log has every change."""


CHANGES = TableDefinition(
    "changes",
    pa.schema(
        [
            *(field for field in arrow_layouts.CHANGES if field.name != "schema"),
            ("batch", pa.int64()),
            ("ingested_at", MOMENT),
        ]
    ),
    partition_by_day_of="ingested_at",
    sort=("table.name", "position"),
    without_bounds=frozenset({"before", "after", "meta"}),
)
"""The log. `batch` numbers the batches of a source; `ingested_at` is when the batch was read."""

REJECTS = TableDefinition(
    "rejects",
    pa.schema(
        [
            ("id", pa.string()),
            ("source", pa.string()),
            *(field for field in arrow_layouts.REJECTS if field.name != "feature"),
            ("batch", pa.int64()),
            ("ingested_at", MOMENT),
        ]
    ),
    partition_by_day_of="ingested_at",
    without_bounds=frozenset({"raw"}),
)
"""Complete records that could not be decoded. `id` is the source and the place of the record in it."""

SCHEMAS = TableDefinition(
    "schemas",
    pa.schema(
        [
            ("id", pa.int64()),
            ("source", pa.string()),
            ("table", arrow_layouts.TABLE),
            ("version", pa.int32()),
            ("position", pa.string()),
            ("origin", pa.string()),
            ("status", pa.string()),
            ("schema", pa.string()),
            ("note", pa.string()),
            ("registered_at", MOMENT),
        ]
    ),
    without_bounds=frozenset({"schema"}),
)
"""The schema registry. `position` is where a version begins to hold, null from the start on; `version` counts per table."""

BATCHES = TableDefinition(
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
    without_bounds=frozenset({"plan"}),
)
"""What each batch was to read, written before it was read. Of two attempts at one batch the later counts."""

POINTS = TableDefinition(
    "points",
    pa.schema(
        [
            ("point", pa.int64()),
            ("made_at", MOMENT),
            ("complete", pa.bool_()),
            (
                "sources",
                pa.list_(
                    pa.struct(
                        [
                            ("source", pa.string()),
                            ("batch", pa.int64()),
                            ("whole_batch", pa.int64()),
                            ("position", pa.string()),
                            ("transaction", pa.string()),
                            ("commit_time", pa.int64()),
                            ("late", pa.string()),
                        ]
                    )
                ),
            ),
            ("tables", pa.list_(pa.struct([("name", pa.string()), ("snapshot", pa.int64())]))),
            ("base", pa.int64()),
        ]
    ),
)
"""States of all replicas together: up to which position of each source, and which snapshot of each replica that is.

Where `base` is null, `tables` has all replicas; else those that changed since the point before, without a snapshot those that are
gone. `base` is the last point that has all of them.

Of a source: the last batch considered, the last batch fully applied, the furthest position with its transaction,
the latest commit time up to there, and the first position that came behind an earlier point. `complete` is false where a
transaction without an end mark was taken for complete after a wait."""

QUARANTINE = TableDefinition(
    "asides",
    pa.schema(
        [
            ("source", pa.string()),
            ("table", arrow_layouts.TABLE),
            ("row", pa.string()),
            ("key", pa.string()),
            ("column", pa.string()),
            ("value", pa.string()),
            ("encoding", pa.string()),
            ("reason", pa.string()),
            ("position", pa.string()),
            ("point", pa.int64()),
        ]
    ),
    without_bounds=frozenset({"value"}),
)
"""The quarantine, what replicas cannot store; the table keeps its first name, so that existing lakes continue to work. It has values
that do not fit their columns (NULL there), changes that have no place (no column), and rows that a change touched without giving their
values (no column, no value)."""

TABLES = (CHANGES, REJECTS, SCHEMAS, BATCHES, POINTS, QUARANTINE)
