"""The columns of changes, put together from what a reader by columns found."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changeling.model import layout
from changeling.model.operation import Image
from changeling.model.table import TableName

SHOWN = (Image.FULL.value, Image.PARTIAL.value)
"""Images that have values."""


class ChangeColumns(NamedTuple):
    """What plain records say; each is a row operation with a position of its own."""

    op: pa.Array
    tables: Sequence[TableName]
    """The distinct tables, and in `table` which of them each change belongs to."""
    table: pa.Array
    key: pa.Array
    before: pa.Array
    after: pa.Array
    before_image: pa.Array
    after_image: pa.Array
    position: pa.Array
    commit_time: pa.Array
    transaction: pa.Array
    meta: pa.Array
    schema: pa.Array

    def batch(self, origin: pa.Array, source: str, encoding: str) -> pa.RecordBatch:
        """As a batch of layout `CHANGES`."""
        count = len(origin)
        columns = [
            _constant(source, count),
            layout.tables_array(self.tables).take(self.table),
            self.op,
            _text(self.key),
            _text(self.before),
            _text(self.after),
            self.before_image,
            self.after_image,
            _constant(encoding, count),
            self.position,
            self.commit_time,
            self.transaction,
            pa.nulls(count, pa.int64()),
            origin,
            _text(self.meta),
            self.schema,
            pa.repeat(pa.scalar(False), count),
        ]
        return pa.record_batch(columns, schema=layout.CHANGES)


def _constant(value: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), count)


def _text(column: pa.Array) -> pa.Array:
    return column if column.type == pa.string() else column.cast(pa.string())


def full_or_none(images: pa.Array) -> pa.Array:
    """How complete images are that have all columns wherever they are present."""
    return pc.if_else(pc.is_valid(images), Image.FULL.value, Image.NONE.value)


def schemas(tables: Sequence[TableName], places: pa.Array, schema: Callable[[TableName], str | None]) -> pa.Array:
    """The schema of each change, by its table."""
    return pa.array([schema(table) for table in tables], pa.string()).take(places)
