"""Groups rows that have the same values, such as the changes of each table in a batch."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.model.table import TableName

_NOWHERE = TableName(None, None, "")


def group_codes(columns: Iterable[pa.DictionaryArray]) -> np.ndarray:
    """A number for each row, which rows of the same values share; NULL equals NULL."""
    codes: np.ndarray | int = 0
    for column in columns:
        codes = codes * (len(column.dictionary) + 1) + np.asarray(pc.add(pc.fill_null(column.indices, -1), 1), np.int64)
    return np.asarray(codes)


def grouped(columns: Iterable[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """A group number for each row (rows of the same values), and the first row of each group."""
    codes = group_codes(column.dictionary_encode() for column in columns)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return inverse, first


def table_at(changes: pa.RecordBatch, row: int) -> TableName:
    """The table of one change."""
    found = changes.column("table")[row].as_py()
    return _NOWHERE if found is None else TableName(found["catalog"], found["schema"], found["name"])
