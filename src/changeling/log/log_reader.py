"""Changes of the log as formats take them: each with the text of its schema. Needs no Spark."""

import pyarrow as pa
import pyarrow.compute as pc

from changeling.formats.meta_template import with_whole_meta
from changeling.iceberg.conditions import equals
from changeling.iceberg.reader import Tables
from changeling.log.log_tables import CHANGES, SCHEMAS
from changeling.model import arrow_layouts
from changeling.model.table import TableName


def last_changes(log: Tables, table: TableName, count: int) -> pa.Table:
    """The last changes of a table by position, oldest first, in the layout that `changeling.encode` takes.

    Those of one position are in the order of arrival.
    """
    rows = log.rows(CHANGES, equals("table.name", table.name))
    parts = zip((table.catalog, table.schema), ("catalog", "schema"), strict=True)
    for part, name in parts:
        if part is not None:
            rows = rows.filter(pc.equal(pc.struct_field(rows.column("table"), name), part))
    rows = rows.take(_order(rows))
    rows = rows.slice(max(0, rows.num_rows - count))
    texts = {row["id"]: row["schema"] for row in log.rows(SCHEMAS, columns=("id", "schema")).to_pylist()}
    schemas = pa.array([texts.get(number) for number in rows.column("schema_id").to_pylist()], pa.string())
    found = rows.append_column("schema", schemas).select(arrow_layouts.CHANGES.names).cast(arrow_layouts.CHANGES)
    return pa.Table.from_batches(map(with_whole_meta, found.combine_chunks().to_batches()), arrow_layouts.CHANGES)


def _order(rows: pa.Table) -> pa.Array:
    """By position, batch, file or topic, partition, record or offset."""
    origins = rows.column("origin").combine_chunks()
    ordinal, record, partition, offset = (
        pc.struct_field(origins, name) for name in ("ordinal", "record", "partition", "offset")
    )
    names = ("position", "batch", "ordinal", "partition", "record")
    columns = (rows.column("position"), rows.column("batch"), ordinal, partition, pc.coalesce(offset, record))
    known = pa.table(dict(zip(names, columns, strict=True)))
    return pc.sort_indices(known, sort_keys=[(name, "ascending") for name in names])
