"""Changes of the log as formats take them: each with the text of its schema. Needs no Spark."""

import pyarrow as pa
import pyarrow.compute as pc

from changeling.log.layout import CHANGES, SCHEMAS
from changeling.log.reading import Tables, equals
from changeling.model import layout
from changeling.model.table import TableName


def last_changes(log: Tables, table: TableName, count: int) -> pa.Table:
    """The last changes of a table by position, oldest first, in the layout that `changeling.encode` takes."""
    rows = log.rows(CHANGES, equals("table.name", table.name))
    parts = zip((table.catalog, table.schema), ("catalog", "schema"), strict=True)
    for part, name in parts:
        if part is not None:
            rows = rows.filter(pc.equal(pc.struct_field(rows.column("table"), name), part))
    rows = rows.sort_by("position")
    rows = rows.slice(max(0, rows.num_rows - count))
    texts = {row["id"]: row["schema"] for row in log.rows(SCHEMAS, columns=("id", "schema")).to_pylist()}
    schemas = pa.array([texts.get(number) for number in rows.column("schema_id").to_pylist()], pa.string())
    return rows.append_column("schema", schemas).select(layout.CHANGES.names).cast(layout.CHANGES)
