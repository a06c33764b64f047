"""A column that gets a wider type holds what reading its changes again would give it, whatever the two types are."""

import base64
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeling.log.schema_evolution import common
from changeling.model.table import Column
from changeling.model.types import SIMPLE, Type, parse
from changeling.replicas.keys import Reader, normal, reader_of
from changeling.replicas.shape import Columns, ColumnTarget, ReplicaColumn, Shape
from changeling.replicas.stored_types import arrow_type, is_promotion
from changeling.replicas.type_widening import converted, plainly_converted
from changeling.replicas.value_kinds import undeclared
from changeling.replicas.values import column
from tests.log.lakes import Shop, shop
from tests.log.records import debezium
from tests.replicas.json_values import ODD
from tests.replicas.shops import replica

DECIMALS = ["(5,4)", "(8,6)", "(10,2)", "(20,2)", "(21,2)", "(38,0)", "(38,2)", "(38,38)", "(39,2)", "(50,3)"]
TYPES = [*SIMPLE, *(f"decimal{digits}" for digits in DECIMALS)]
NESTED = ["float32", "float64", "int16", "int64", "uint64", "decimal(10,2)", "decimal(38,10)", "decimal"]
KINDS = [*map(parse, TYPES), *(parse(f"array<{name}>") for name in NESTED), parse("array<array<decimal(5,1)>>")]
DECLARED = sorted(
    {(old, str(both)) for old in KINDS for new in KINDS if (both := common(old, new)) not in (None, old)}, key=str
)
UNDECLARED = [
    *(("bool", "json"), ("string", "json"), ("decimal", "json")),
    *(("int64", wider) for wider in ("decimal(22,3)", "float64", "decimal", "json")),
    *(("decimal(6,3)", wider) for wider in ("decimal(8,3)", "decimal(25,6)", "float64", "decimal", "json")),
    *(("decimal(38,38)", wider) for wider in ("decimal", "json")),
    *(("float64", wider) for wider in ("decimal", "json")),
]
MORE = [
    *b"5 -5 1.5 1.50 -1.05 0.1 0.10000000149011612 16777217 1e-7 0.0000001 0e-10 3.4e38 99999999.99 12345678.12".split(),
    *b"-0.00 100 1e2 1e150 1.0e0 12345678901234567890.5 0.00000000000000000000000000000000000001".split(),
    *b'[1] [1.5,null,"0.10"] ["-0",1e-7,0] [0.1] [[1.5],[]]'.split(),
    *(json.dumps(text).encode() for text in ("why", "3", "null", "a\\u000Bb", 'say "so"\\', "é\u2028\x7f😀", "a/b")),
    json.dumps("".join(map(chr, range(0x80)))).encode(),
    b'"\\u0041\\/"',
]
VALUES: list[bytes | None] = [*ODD, *MORE, None]


def reader(carried: Type, kind: Type) -> Reader:
    """How values of one type are read into a column of another."""
    columns = Columns(column_targets={1: {"v": ColumnTarget("v", Column("v", str(carried)))}})
    found = reader_of(columns, Shape((ReplicaColumn("v", "v", str(kind)),)), "canonical", 1, "v")
    assert found is not None
    return found


def of_kind(kind: Type) -> list[bytes | None]:
    """The values that a column of an inferred type holds."""
    return [value for value in VALUES if value is not None and _is_json(value) and not undeclared([value], kind)[1]]


def _is_json(value: bytes) -> bool:
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return False
    return True


def padded(array: pa.Array, length: int) -> pa.Array:
    return pa.concat_arrays([array, pa.nulls(length - len(array), array.type)])


def test_stored_values_become_what_reading_them_again_gives(spark: SparkSession) -> None:
    stored: list[pa.Array] = []
    wanted: list[tuple[Type, Type, bool, list[Any]]] = []

    def expect(old: Type, new: Type, before: pa.Array, after: pa.Array, *, plainly: bool = False) -> None:
        assert (before.type, after.type) == (arrow_type(old), arrow_type(new))
        stored.append(padded(before, len(VALUES)))
        wanted.append((old, new, plainly, padded(after, len(VALUES)).to_pylist()))

    for old, name in DECLARED:
        new = parse(name)
        before, misfits = column(VALUES, old, reader(old, old).read)
        after, still = column(VALUES, new, reader(old, new).read)
        assert [one.place for one in still] == [one.place for one in misfits], (old, new)
        expect(old, new, before, after)
    for old, new in ((parse(one), parse(other)) for one, other in UNDECLARED):
        values = of_kind(old)
        if new.kind == "float64":
            values = [value for value in values if not undeclared([value], new)[1]]
        assert len(values) > 1
        expect(old, new, undeclared(values, old)[0], undeclared(values, new)[0], plainly=True)
    for digits in ("(10,2)", "(38,10)", "(5,0)"):
        old, new = parse(f"decimal{digits}"), Type("decimal")
        fitting = [value for value in (b"1.5", b"10", b"0", b"-0.50", b"100") if not column([value], old)[1]]
        keys = [normal(value, reader(old, new)) for value in fitting]
        expect(old, new, column(fitting, old)[0], column(keys, new)[0], plainly=True)
    names = [f"c{place}" for place in range(len(stored))]
    frame = spark.createDataFrame(pa.table(dict(zip(names, stored, strict=True))))
    made = frame.select(
        *(
            (plainly_converted if plainly else converted)(frame[name], old, new).alias(name)
            for name, (old, new, plainly, _) in zip(names, wanted, strict=True)
        )
    ).toArrow()
    for name, (old, new, _, values) in zip(names, wanted, strict=True):
        assert list(map(repr, made.column(name).to_pylist())) == list(map(repr, values)), (old, new)


@pytest.mark.parametrize(("old", "new"), UNDECLARED)
def test_what_is_not_spelled_alike_is_written_again(old: str, new: str) -> None:
    in_place = (("decimal", "json"), ("decimal(6,3)", "decimal(8,3)"))
    assert is_promotion(parse(old), parse(new)) == ((old, new) in in_place)


def ydb(key: int, value: Any, numbers: str = "null null null") -> str:
    """An update of `v`, and of three columns of numbers as they are spelled."""
    exact, double, size = numbers.split(" ")
    image = f'{{"v": {json.dumps(value)}, "exact": {exact}, "double": {double}, "size": {size}}}'
    return f'{{"key": [{key}], "update": {image}, "ts": [{1_700_000_000_000 + key}, {key}]}}'


def amount(number: int, value: int | str) -> str:
    """An insert whose amount is a bigint, or a numeric(20,2)."""
    record = json.loads(debezium(number, kind="int64"))
    if isinstance(value, str):
        digits = int(value.replace(".", ""))
        record["payload"]["after"]["n"] = base64.b64encode(digits.to_bytes(9, "big", signed=True)).decode()
        for image in record["schema"]["fields"]:
            image["fields"][1] |= {
                "type": "bytes",
                "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": "2", "connect.decimal.precision": "20"},
            }
    else:
        record["payload"]["after"]["n"] = value
    return json.dumps(record)


def run(made: Shop, number: int, ydbs: Sequence[str], amounts: Sequence[str]) -> None:
    made.write(f"{number}.json", *ydbs)
    made.write(f"{number}.dbz", *amounts)
    made.pipeline.run(once=True)


def test_a_replica_whose_columns_widen_is_the_one_that_a_rebuild_makes(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(
        tmp_path,
        {"name": "ydb", "type": "files", "path": "in/*.json", "format": "ydb-json", "table": "t", "key": ["id"]},
        {"name": "bus", "type": "files", "path": "in/*.dbz", "format": "debezium-json", "key": ["id"]},
        tables=[{"name": "*", "mode": "history"}],
    )
    largest = 2**63 - 1
    run(
        made,
        1,
        [ydb(1, "why", "12.5 12.50 1e3"), ydb(2, "3", "-0.0 1 1.50e1"), ydb(3, "null")],
        [amount(1, largest), amount(2, -5)],
    )
    run(made, 2, [ydb(4, 4, "123.45 1e300 9007199254740993")], [amount(3, "123456789012345678.25")])
    run(made, 3, [ydb(5, 1.5, "7 1e-7 0.5")], [amount(4, 7)])
    cells = [
        (1, '"why"', Decimal("12.50"), 12.5, "1000"),
        (2, '"3"', Decimal("0.00"), 1.0, "15"),
        (3, '"null"', None, None, None),
        (4, "4", Decimal("123.45"), 1e300, "9007199254740993"),
        (5, "1.5", Decimal("7.00"), 1e-7, "0.5"),
    ]
    amounts = [(1, f"{largest}.00"), (2, "-5.00"), (3, "123456789012345678.25"), (4, "7.00")]

    def check() -> None:
        for name in ("t", "t__history"):
            columns = ("id", "v", "exact", "double", "size")
            assert sorted(tuple(row[column] for column in columns) for row in replica(made, name)) == cells
        for name in ("public__users", "public__users__history"):
            assert sorted((row["id"], str(row["n"])) for row in replica(made, name)) == amounts

    assert made.rejects() == []
    check()
    assert (made.pipeline.rebuild("t"), made.pipeline.rebuild("users")) == (5, 4)
    check()
    found = made.pipeline.current("users")
    assert found is not None
    assert [(one.name, one.type) for one in found[1].columns] == [("id", "int64"), ("n", "decimal(21,2)")]
