"""Normalised keys: many at once are what each of them is."""

import pyarrow as pa
import pytest

from changeling.log.schema_registry import Version
from changeling.model.table import Column, TableName, TableSchema
from changeling.replicas.keys import KeyReader
from changeling.replicas.shape import columns_of

NUMBERS = ["0", "7", "-5", "-0", "999999999", "-999999999", "123456789012345678", "-123456789012345678"]
LARGE = [
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "-9223372036854775808",
]
OTHERS = ["null", "1.0", "1e3", '"5"', "true"]


def reader_of(kind: str) -> KeyReader:
    table, schema = TableName(None, None, "t"), TableSchema((Column("id", kind),), ("id",))
    version = Version(
        id=1, source="s", table=table, version=1, position=None, origin="declared", status="accepted", schema=schema
    )
    columns = columns_of([version], None, "evolve", ())
    return KeyReader(columns, columns.shape(), "canonical", 1)


@pytest.mark.parametrize("kind", ["int32", "int64", "uint32", "uint64"])
def test_integers(kind: str) -> None:
    read = reader_of(kind)
    keys = [f'{{"id":{number}}}' for number in (*NUMBERS, *LARGE, *OTHERS)]
    alone = [read.one(key) for key in keys]
    assert read(pa.array(keys)).to_pylist() == alone
    for key, expected in zip(keys, alone, strict=True):
        assert read(pa.array([key] * 3)).to_pylist() == [expected] * 3


@pytest.mark.parametrize(("kind", "expected"), [("int64", "[-5]"), ("uint32", None), ("uint64", None)])
def test_a_negative_number_is_no_unsigned_key(kind: str, expected: str | None) -> None:
    """Whatever stands next to it: it must not depend on how changes are shared out to tasks."""
    read = reader_of(kind)
    for others in ([], ["7"], ["18446744073709551615"]):
        keys = pa.array([f'{{"id":{number}}}' for number in ("-5", *others)])
        assert read(keys)[0].as_py() == expected
