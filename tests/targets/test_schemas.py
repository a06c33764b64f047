"""Schemas that change, types of all kinds and names of all kinds, from records to PostgreSQL."""

import base64
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.model.errors import ChangelingError
from tests.log.lakes import event, shop
from tests.postgres.server import Database
from tests.replicas.shops import bus, item
from tests.targets.postgres_targets import differing, mirror, run, step, there

XTDB: dict[str, Any] = {"name": "drop", "type": "files", "path": "in/*.json", "format": "xtdb"}


def types_there(database: Database, table: str) -> dict[str, str]:
    return dict(
        database.rows(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            f"WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
    )


def test_columns_follow_the_schema(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    made = bus(tmp_path)
    target = mirror(made, database)
    columns = {"id": "int64", "a": "utf8", "n": "int32"}
    rows: list[dict[str, Any]] = [{"id": number, "a": f"v{number}", "n": number} for number in (1, 2, 3)]
    run(made, "a", *(item(row["id"], "insert", row, columns=columns) for row in rows))
    step(target)
    database.execute("CREATE TABLE kept AS SELECT oid FROM pg_class WHERE relname = 'users'")
    # One more, and two at once: a column is renamed and another one widened.
    columns = {"id": "int64", "a": "utf8", "n": "int32", "more": "date"}
    run(made, "b", item(4, "insert", {"id": 4, "a": "x", "n": 4, "more": "2024-02-29"}, columns=columns))
    assert [(moved.written, moved.deleted, moved.whole) for moved in step(target).tables] == [(1, 0, False)]
    columns = {"id": "int64", "b": "utf8", "n": "int32", "more": "date"}
    run(made, "c", item(5, "update", {"id": 1, "b": "one"}, {"id": 1}, columns=columns))
    columns = {"id": "int64", "b": "utf8", "n": "int64", "more": "date"}
    run(made, "d", item(6, "update", {"id": 2, "n": 2**40}, {"id": 2}, columns=columns))
    assert [(moved.written, moved.deleted, moved.whole) for moved in step(target).tables] == [(2, 0, False)]
    assert differing(made, database) == {}
    assert types_there(database, "users") == {"id": "bigint", "b": "text", "n": "bigint", "more": "date"}
    assert there(database, "users")[0] == {"id": 1, "b": "one", "n": 1, "more": None}
    # One is dropped; a type for which Iceberg rewrites all rows is widened in place.
    columns = {"id": "int64", "b": "utf8", "n": "decimal"}
    run(made, "e", item(7, "update", {"id": 3, "n": "3.50"}, {"id": 3}, columns=columns))
    assert [(moved.written, moved.deleted, moved.whole) for moved in step(target).tables] == [(1, 0, False)]
    assert types_there(database, "users") == {"id": "bigint", "b": "text", "n": "numeric"}
    assert differing(made, database) == {}
    assert database.rows("SELECT count(*) FROM kept JOIN pg_class USING (oid)") == [(1,)]


def test_a_type_or_a_key_that_is_another_rewrites_the_table(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    made = shop(tmp_path, {**XTDB, "key": ["_id"]})
    target = mirror(made, database)
    run(made, "a", event(1, v="text"), event(2, v="more"))
    step(target)
    assert types_there(database, "users") == {"_id": "text", "n": "bigint", "v": "text"}
    run(made, "b", event(3, v=7), event(4))
    report = step(target)
    assert types_there(database, "users") == {"_id": "text", "n": "bigint", "v": "json"}
    assert differing(made, database) == {}
    assert [(moved.written, moved.whole) for moved in report.tables] == [(4, True)]
    again = shop(
        tmp_path,
        {**XTDB, "key": ["n"]},
        tables=[{"name": "users", "key": ["n"], "columns": {"_id": "string", "n": "int64"}}],
    )
    run(again, "c", event(5), event(6, _id="id-5"))
    report = step(mirror(again, database))
    assert differing(again, database) == {}, report
    found = database.rows(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'users'::regclass AND contype = 'p'"
    )
    assert found == [("PRIMARY KEY (n)",)]


def test_every_type_from_record_to_row(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    values: dict[str, tuple[Any, Any]] = {
        "bool": (True, False),
        "int8": (-128, 127),
        "uint16": (0, 65_535),
        "int32": (-(2**31), 2**31 - 1),
        "uint32": (0, 2**32 - 1),
        "int64": (-(2**63), 2**63 - 1),
        "uint64": (0, 2**64 - 1),
        "float32": (0.1, -0.0),
        "float64": ("NaN", "-Infinity"),
        "decimal(38,10)": ("0.0000000001", "-9999999999999999999999999999.9999999999"),
        "decimal": ("1.50", "-" + "9" * 80),
        "string": ("", 'q"\\\n,é'),
        "bytes": (base64.b64encode(b"\x00\xff").decode(), ""),
        "date": ("0001-01-01", "9999-12-31"),
        "time": ("23:59:59.5", "00:00:00"),
        "timestamp": ("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"),
        "timestamptz": ("2024-02-29T12:00:00.000001Z", "1969-12-31T23:59:59Z"),
        "duration": ("PT2H30M", "P1D"),
        "interval": ({"months": 1, "days": 2, "nanos": 3}, {"months": 0, "days": 0, "nanos": -1}),
        "uuid": ("550e8400-e29b-41d4-a716-446655440000", "00000000-0000-0000-0000-000000000000"),
        "json": ({"a": [1, None, "\0"]}, "text"),
        "array<float64>": ([0.1, None, "NaN", -0.0], []),
        "array<string>": (["a", None, 'q"'], []),
        "array<array<float64>>": ([[0.5], None, [1, 2]], []),
    }
    columns = {f"c{place}": kind for place, kind in enumerate(values)}
    documents = [{f"c{place}": pair[side] for place, pair in enumerate(values.values())} for side in (0, 1)]
    empty: dict[str, Any] = dict.fromkeys(columns)
    declared = {"_id": "string", "n": "int64", **columns}
    rules = [{"name": "users", "columns": declared}, {"name": "bag", "columns": declared}]
    made = shop(tmp_path, XTDB, tables=rules)
    target = mirror(made, database)
    events = [event(1, **documents[0]), event(2, **documents[1]), event(3, **empty)]
    run(made, "a", *events)
    report = step(target)
    assert (report.warnings, made.rejects(), made.pipeline.status()[-1]["aside"]) == ([], [], 0)
    assert differing(made, database) == {}
    # Each row gets the values of the next one; then -0 becomes 0, and a row is written that is as it was.
    turned = [documents[1], empty, documents[0]]
    run(made, "b", *(event(number + 10, **turned[number], _id=f"id-{number + 1}") for number in range(3)))
    assert [(moved.written, moved.whole) for moved in step(target).tables] == [(3, False)]
    assert differing(made, database) == {}
    zero = {**documents[1], "_id": "id-1", "n": 10, "c7": 0.0}
    run(made, "c", event(20, **zero), event(21, **{**documents[0], "_id": "id-3", "n": 12}))
    assert [(moved.written, moved.whole) for moved in step(target).tables] == [(1, False)]
    assert differing(made, database) == {}

    # A row that PostgreSQL cannot store is quarantined as a whole.
    run(made, "d", event(30, _id="id-1", c11="a\0b"), event(31, _id="\0", c11="key"), event(32, _id="id-9"))
    report = step(target)
    (warning,) = report.warnings
    assert warning.startswith("2 rows of public.users cannot be stored in PostgreSQL and are quarantined (1 for ")
    assert all(f"1 for {name}: text in PostgreSQL cannot" in warning for name in ("_id", "c11"))
    assert [row["_id"] for row in there(database, "users")] == ["id-2", "id-3", "id-9"]
    asides = sorted(database.rows('SELECT reason, "row" FROM changeling.asides'), key=repr)
    assert [row[0] for row in asides] == [
        "_id: text in PostgreSQL cannot have the character U+0000",
        "c11: text in PostgreSQL cannot have the character U+0000",
    ]
    assert '"c11":"a\\u0000b"' in asides[1][1]
    status = target.status()
    assert status is not None
    assert status.quarantined == 2
    run(made, "e", event(33, _id="id-1", c11="fine"))
    assert [text[:6] for text in step(target).warnings] == ["1 rows"]
    assert database.rows("SELECT count(*) FROM changeling.asides") == [(1,)]
    assert [row["c11"] for row in there(database, "users")] == ["fine", None, "", None]


def test_names_are_anything_that_postgresql_can_have(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    made = shop(tmp_path)
    names = ['we"ird', "a b", "UPPER", "upper", "ü.ñ", "per%cent %s", "back`tick\\", "select", "x" * 63]
    odd: dict[str, Any] = {name: place for place, name in enumerate(names)}
    odd |= {"_file": 3, "_deleted": 4, "n": 5, "c0": 6, "t": 7, "s": 8, "excluded": 9, "part": 10, "ctid_": 11}
    run(made, "a", *(event(number, table=name, **odd) for number, name in enumerate(names)))
    target = mirror(made, database)
    assert len(step(target).tables) == len(names)
    run(made, "b", *(event(number, table=name, **odd, more=1) for number, name in enumerate(names)))
    step(target)
    assert differing(made, database) == {}
    assert there(database, 'we"ird')[0] == {"_id": "id-0", **odd, "more": 1}
    run(made, "c", event(50, table="y" * 64))
    with pytest.raises(ChangelingError, match=r"target 'mirror': table public\.y+: the name 'y+' has 64 bytes"):
        target.step()
    run(made, "d", event(51, table="fits", **{"z" * 64: 1}))
    with pytest.raises(ChangelingError, match=r"target 'some': column 'z+' of table public.fits: .* has 64 bytes"):
        mirror(made, database, "fits", name="some").step()
    # The others continue where the table is not listed.
    assert step(mirror(made, database, "UPPER")).tables == []
