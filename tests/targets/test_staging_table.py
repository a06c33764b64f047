"""Values of every type, copied into PostgreSQL by the kernel of the tasks, without Spark."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from changeling.model import types
from changeling.model.errors import ChangelingError
from changeling.replicas.shape import ReplicaColumn, Shape
from changeling.replicas.stored_types import arrow_type
from changeling.targets.column_types import column_type
from changeling.targets.copy_text import copied
from changeling.targets.quarantine import QuarantinedRows, QuarantineKernel
from changeling.targets.staging_table import CopyKernel, create_stage
from tests.postgres.server import Database
from tests.targets.postgres_targets import plain

VALUES: dict[str, list[Any]] = {
    "bool": [True, False],
    "int8": [-128, 127],
    "int16": [-(2**15), 2**15 - 1],
    "int32": [-(2**31), 2**31 - 1],
    "int64": [-(2**63), 2**63 - 1],
    "uint8": [0, 255],
    "uint16": [0, 65_535],
    "uint32": [0, 2**32 - 1],
    "uint64": [Decimal(0), Decimal(2**64 - 1)],
    "decimal(10,2)": [Decimal("-99999999.99"), Decimal("0.01")],
    "decimal(38,38)": [Decimal("1E-38"), Decimal("-0.12345678901234567890123456789012345678")],
    "decimal(60,5)": ["9" * 55 + ".12345", "NaN"],
    "decimal": ["1.50", "-" + "7" * 300 + "." + "3" * 300, "NaN", "Infinity", "-Infinity"],
    "string": ["", "NULL", "\\N", "\\.", 'quo"te', "a,b\r\n\tc", "ünïcode \U0001f600", "{}", " ", "\x01\x7f"],
    "bytes": [b"", b"\x00\xff\\x", b"abc"],
    "date": [date(1, 1, 1), date(9999, 12, 31)],
    "time": ["23:59:59.999999999", "24:00:00+01:00"],
    "timestamp": [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)],
    "timestamptz": [datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 1, 2, 3, 4, UTC)],
    "duration": ["PT2H30M"],
    "interval": ['{"months":1,"days":-2,"nanos":3}'],
    "uuid": ["550e8400-e29b-41d4-a716-446655440000"],
    "json": ["null", '{"a": 1.50, "a": "\\u0000\\ud800"}', '"text"', "12345678901234567890.10", "[ 1,2 ]"],
    "array<int32>": [[], [1, None, -3], [None]],
    "array<string>": [["", "NULL", 'q"\\', "{,}", None, "a\nb"]],
    "array<bytes>": [[b"", b"\x00\xff", None]],
    "array<decimal(10,2)>": [[Decimal("1.50"), None]],
    "array<timestamptz>": [[datetime(2024, 1, 1, tzinfo=UTC)]],
    "array<json>": [['{"a":"x,\\""}', "null", None]],
    "array<uuid>": [["550e8400-e29b-41d4-a716-446655440000"]],
    "array<bool>": [[True, False, None]],
    "array<float32>": [[0.5, float("nan"), float("-inf"), -0.0, None]],
    "array<array<int32>>": [[], [[]], [[1], [2, 3], None]],
}
FLOATS: dict[str, list[str]] = {
    "float32": ["0.1", "3.4028235E38", "1.4E-45", "NaN", "Infinity", "-Infinity", "-0.0"],
    "float64": ["0.1", "1.7976931348623157E308", "4.9E-324", "NaN", "-Infinity", "-0.0"],
}


def shape_of(*kinds: str, key: tuple[str, ...] = ()) -> Shape:
    columns = tuple(ReplicaColumn(str(place), f"column {place}", kind) for place, kind in enumerate(kinds))
    return Shape(columns, key)


def batch_of(columns: list[pa.Array], counts: list[int] | None = None) -> pa.RecordBatch:
    length = len(columns[0])
    names = [*(f"c{place}" for place in range(len(columns))), "n"]
    return pa.record_batch([*columns, pa.array(counts or [1] * length, pa.int64())], names=names)


def copy(database: Database, shape: Shape, batch: pa.RecordBatch) -> tuple[int, int]:
    """How many rows were copied, and how many do not fit."""
    database.execute("CREATE SCHEMA IF NOT EXISTS changeling")
    table = create_stage(database.connection, "stage_of_a_test", shape)
    # Several batches, as Spark sends them.
    batches = [batch.slice(start, 3) for start in range(0, batch.num_rows, 3)]
    ((counts,),) = [batch.to_pylist() for batch in CopyKernel(database.url, table, shape)(batches)]
    return counts["rows"], counts["misfits"]


@pytest.mark.parametrize("kind", [*VALUES, *FLOATS, "text float32", "text float64"])
def test_values_arrive_as_they_are(kind: str, database: Database) -> None:
    kind, as_text = kind.removeprefix("text "), kind.startswith("text ")
    parsed = types.parse(kind)
    values: list[Any] = [None, *VALUES.get(kind, ()), *FLOATS.get(kind, ()), None]
    array = pa.array(values, pa.string()) if kind in FLOATS else pa.array(values, arrow_type(parsed))
    if kind in FLOATS and not as_text:
        array = array.cast(arrow_type(parsed))
    shape = shape_of(kind)
    assert copy(database, shape, batch_of([array])) == (len(values), 0)
    kept = "::text[]" if kind == "array<json>" else "::text" if column_type(parsed, in_key=False) == "json" else ""
    rows = database.rows(f"SELECT c0{kept} FROM changeling.stage_of_a_test ORDER BY ctid")
    if kind in FLOATS:
        assert [plain(row[0], parsed) for row in rows] == [
            None if value is None else plain(float(value), parsed) for value in values
        ]
    elif kind == "array<array<int32>>":
        assert [row[0] for row in rows] == [None, "[]", "[[]]", "[[1],[2,3],null]", None]
    else:
        assert [plain(row[0], parsed) for row in rows] == [plain(value, parsed) for value in values]


def test_types_are_spelled_as_postgresql_spells_them(database: Database) -> None:
    kinds = [*VALUES, *FLOATS]
    spelled = [column_type(types.parse(kind), in_key=in_key) for kind in kinds for in_key in (False, True)]
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(spelled))
    database.execute(f"CREATE TABLE spelled ({columns})")
    found = database.rows(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'spelled'::regclass AND attnum > 0 "
        "ORDER BY attnum"
    )
    assert [row[0] for row in found] == spelled


def test_floats_in_arrays_of_arrays_are_numbers_again() -> None:
    kind = types.parse("array<array<float64>>")
    array = pa.array([[["0.1", "-0.0", "NaN"]], None], pa.list_(pa.list_(pa.string())))
    assert copied(array, kind, "json").to_pylist() == ['[[0.1,-0.0,"NaN"]]', None]


def test_text_among_json_is_spelled_as_json(database: Database) -> None:
    shape = shape_of("json", "array<json>")
    texts = ["{", "NaN", '"\0"', "text", "7", '"ok"']
    columns = [pa.array(texts), pa.array([["x,", text] for text in texts])]
    assert copy(database, shape, batch_of(columns)) == (6, 0)
    expected = ['"{"', '"NaN"', '"\\"\\u0000\\""', '"text"', "7", '"ok"']
    found = database.rows("SELECT c0::text, c1::text[] FROM changeling.stage_of_a_test ORDER BY ctid")
    assert found == [(text, ['"x,"', text]) for text in expected]


MISFITS = [
    ("string", "a\0b", "U\\+0000"),
    ("time", "\0", "U\\+0000"),
    ("array<string>", ["a", "b\0"], "U\\+0000"),
    ("decimal(60,5)", "Infinity", "numeric"),
    ("decimal", "0." + "1" * 16_384, "numeric"),
    ("decimal", "1" * 131_073, "numeric"),
    ("array<decimal>", ["1" * 131_073], "numeric"),
]


@pytest.mark.parametrize(("kind", "value", "reason"), MISFITS)
def test_what_postgresql_cannot_hold_is_kept_aside_with_its_row(
    kind: str, value: Any, reason: str, database: Database
) -> None:
    stored = arrow_type(types.parse(kind))
    spelled = column_type(types.parse(kind), in_key=False)
    literal = copied(pa.array([value], stored), types.parse(kind), spelled)[0].as_py()
    with pytest.raises(psycopg.Error):
        database.connection.execute(f"SELECT %s::{spelled}", (literal,))
    shape = shape_of("int64", kind, "string", key=("0",))
    columns = [pa.array([1, 2, 3, 4]), pa.array([None, value, value, None], stored), pa.array(["a", "b", "c", "d"])]
    batch = batch_of(columns, [1, 1, -1, -1])
    assert copy(database, shape, batch) == (3, 2)
    # The row that comes and does not fit takes away the one that did.
    found = database.rows("SELECT n, c0, c1::text, c2 FROM changeling.stage_of_a_test ORDER BY c0")
    assert found == [(1, 1, None, "a"), (-1, 2, None, None), (-1, 4, None, "d")]
    (found,) = QuarantineKernel(shape)([batch.drop_columns(["n"])])
    rows = found.to_pylist()
    assert [row["row"].partition('"column 1"')[0] for row in rows] == ['{"column 0":2,', '{"column 0":3,']
    assert re.search(reason, rows[0]["reason"])
    database.connection.execute("SELECT %s::json", (rows[0]["row"],))


def test_the_most_frequent_reasons_are_reported() -> None:
    assert QuarantinedRows(2, [("a", "{}"), ("a", "{}")]).reasons() == "a"
    listed = [(reason, "{}") for reason in "abbcccddddee"]
    assert QuarantinedRows(12, listed).reasons() == "4 for d; 3 for c; 2 for b; 3 for others"
    assert QuarantinedRows(99, listed[1:6]).reasons() == "of the first 5: 3 for c; 2 for b"


def test_a_key_that_cannot_be_one_is_kept_aside(database: Database) -> None:
    shape = shape_of("string", "json", "int64", key=("0", "1"))
    columns = [pa.array(["a", None, "c\0", "d"]), pa.array(["1", "1", "1", '{"a"']), pa.array([1, 2, 3, 4])]
    assert copy(database, shape, batch_of(columns)) == (2, 2)
    # A key of type json is text: whatever it holds.
    assert database.rows("SELECT c0, c1 FROM changeling.stage_of_a_test") == [("a", "1"), ("d", '{"a"')]


def test_a_table_without_a_key_leaves_out_what_does_not_fit(database: Database) -> None:
    columns = [pa.array(["a", "b\0", "c\0"])]
    assert copy(database, shape_of("string"), batch_of(columns, [1, 2, -2])) == (1, 2)
    assert database.rows("SELECT n, c0 FROM changeling.stage_of_a_test") == [(1, "a")]


def test_a_task_that_cannot_copy_says_why_and_not_the_password() -> None:
    shape = shape_of("int64")
    kernel = CopyKernel("postgresql://anne:hunter2@127.0.0.1:1/shop", psycopg.sql.Identifier("x"), shape)
    assert "hunter2" not in repr(kernel)
    with pytest.raises(ChangelingError, match=r"PostgreSQL at 127\.0\.0\.1:1/shop: .*refused") as raised:
        list(kernel([batch_of([pa.array([1])])]))
    assert "hunter2" not in str(raised.value)
    assert list(kernel([batch_of([pa.array([], pa.int64())])])) == []
