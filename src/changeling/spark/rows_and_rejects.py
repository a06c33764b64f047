"""Rows and rejects: a kernel gives both in one pass, and a Spark frame has one layout."""

from enum import Enum

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from changeling.model import arrow_layouts

REJECT = "reject"
"""The column of the reject in a frame of both; null in every other row."""
_REJECT_TYPE = pa.struct(list(arrow_layouts.REJECTS))


class Shows(Enum):
    """Which output of a kernel a frame shows. A frame of one part costs less than one of both with a filter over it."""

    ROWS = "rows"
    REJECTS = "rejects"
    BOTH = "both"

    def layout(self, rows: pa.Schema) -> pa.Schema:
        """The frame's layout, given that of the rows."""
        match self:
            case Shows.ROWS:
                return rows
            case Shows.REJECTS:
                return arrow_layouts.REJECTS
            case Shows.BOTH:
                return rows.append(pa.field(REJECT, _REJECT_TYPE))

    def of(self, rows: pa.RecordBatch, rejects: pa.RecordBatch) -> pa.RecordBatch:
        """The output of a kernel, as far as this part shows it."""
        match self:
            case Shows.ROWS:
                return rows
            case Shows.REJECTS:
                return rejects
            case Shows.BOTH:
                return _joined(rows, rejects)


def _joined(rows: pa.RecordBatch, rejects: pa.RecordBatch) -> pa.RecordBatch:
    columns = [*rows.columns, pa.nulls(rows.num_rows, _REJECT_TYPE)]
    if rejects.num_rows:
        rest = [pa.nulls(rejects.num_rows, field.type) for field in rows.schema]
        rest.append(pa.StructArray.from_arrays(rejects.columns, fields=list(arrow_layouts.REJECTS)))
        columns = [pa.concat_arrays(pair) for pair in zip(columns, rest, strict=True)]
    return pa.record_batch(columns, schema=Shows.BOTH.layout(rows.schema))


def split(frame: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The rows and the rejects of a frame of both."""
    is_row = f.col(REJECT).isNull()
    return frame.where(is_row).drop(REJECT), frame.where(~is_row).select(f"{REJECT}.*")
