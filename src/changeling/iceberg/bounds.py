"""Whether a data file may hold rows with certain keys, by the bounds of each column in its manifest."""

import struct
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.iceberg.data_files import DataFile, field_id

_EPOCH = date(1970, 1, 1)


def may_hold(file: DataFile, keys: pa.Table) -> bool:
    """Whether any of these keys can be among the rows of a file; the columns carry their ids. No bound excludes nothing."""
    if not keys.num_rows:
        return False
    inside = np.ones(keys.num_rows, bool)
    for field in keys.schema:
        number = field_id(field)
        if number in file.lower and number in file.upper:
            inside &= _inside(keys.column(field.name), file.lower[number], file.upper[number])
    return bool(inside.any())


def _inside(column: pa.ChunkedArray, lower: bytes, upper: bytes) -> np.ndarray:
    read = _reader(column.type)
    if read is None:
        return np.ones(len(column), bool)
    low, high = pa.scalar(read(lower), column.type), pa.scalar(read(upper), column.type)
    found = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
    # Bounds do not cover NULL and NaN.
    held = np.asarray(pc.fill_null(found, True), bool)
    if pa.types.is_floating(column.type):
        held |= np.asarray(pc.fill_null(pc.is_nan(column), True), bool)
    return held


def _reader(kind: pa.DataType) -> Callable[[bytes], Any] | None:
    """How Iceberg serialises single values of a type; None where its order is not that of Arrow."""
    if pa.types.is_integer(kind):
        return _integer
    if pa.types.is_floating(kind):
        return _float
    if pa.types.is_date32(kind):
        return lambda raw: _EPOCH + timedelta(_integer(raw))
    if pa.types.is_timestamp(kind):
        return _integer
    if pa.types.is_decimal(kind):
        return lambda raw: Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-kind.scale)
    if pa.types.is_string(kind):
        return lambda raw: raw.decode("utf-8")
    if pa.types.is_binary(kind):
        return bytes
    return None


def _integer(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


def _float(raw: bytes) -> float:
    # A column that was promoted from float to double has bounds of four bytes in its older files.
    (value,) = struct.unpack("<f" if len(raw) == 4 else "<d", raw)
    return float(value)
