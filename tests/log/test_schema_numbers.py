"""Records that carry the number of a schema alone: the registry has its columns, whoever registered it."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

import changeling
from changeling.log import log_tables as tables
from changeling.model.errors import ChangelingError
from changeling.model.table import Column, TableSchema, schema_from_json
from tests.log.lakes import Shop
from tests.log.lakes import log_only as shop
from tests.log.records import transferia

COLUMNS = {"id": "int64", "n": "int32"}
DECLARED = TableSchema((Column("id", "int64"), Column("n", "int32")), ("id",))
WITH_NOTE = {**COLUMNS, "note": "utf8"}
LEARNED = TableSchema(
    (Column("id", "int64", "int64"), Column("n", "int32", "int32"), Column("note", "string", "utf8")), ("id",)
)
RULE: dict[str, Any] = {"name": "public.users", "columns": COLUMNS, "key": ["id"]}


def pipeline(folder: Path, *rules: dict[str, Any]) -> Shop:
    sources = [
        {"name": name, "type": "files", "path": f"in/{name}/*", "format": "transferia"} for name in ("bus", "other")
    ]
    return shop(folder, *sources, tables=list(rules))


def logged(made: Shop) -> list[tuple[str, int, str, TableSchema]]:
    """Source, position, row and schema of each change, by source and position."""
    known = {row["id"]: row for row in made.table(tables.SCHEMAS).to_pylist()}
    rows = sorted(made.table(tables.CHANGES).to_pylist(), key=lambda row: (row["source"], row["position"]))
    found = []
    for row in rows:
        schema = schema_from_json(known[row["schema_id"]]["schema"])
        found.append(
            (
                row["source"],
                int(row["position"][2:]),
                row["after"],
                msgspec.structs.replace(schema, id=row["schema_id"]),
            )
        )
    return found


def change(source: str, number: int, schema: TableSchema, schema_id: int) -> tuple[str, int, str, TableSchema]:
    """A change as `logged` returns it."""
    row = {"id": number, "n": number, "note": f"note {number}"}
    after = json.dumps({column.name: row[column.name] for column in schema.columns}, separators=(",", ":"))
    return source, number, after, msgspec.structs.replace(schema, id=schema_id)


def unknown(number: int) -> str:
    return (
        f'no schema has the id {number}: give it with --schema FILE, an object with "id": {number} and its columns '
        f"(in a pipeline: under `tables:` with `id: {number}`)"
    )


def test_a_number_is_resolved_by_the_registry_and_an_unknown_one_after_it_is_declared(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = pipeline(tmp_path, {**RULE, "id": 50})
    made.write("bus/0.json", transferia(1, 50), transferia(2, 99), transferia(3, WITH_NOTE))
    made.pipeline.run(once=True)
    # The rule holds for both sources: the table of each has a version.
    made.write("other/0.json", transferia(1, 50))
    made.pipeline.run(once=True)
    first = [change("bus", 1, DECLARED, 50), change("bus", 3, LEARNED, 51), change("other", 1, DECLARED, 52)]
    assert logged(made) == first
    assert [(row["raw"], row["reason"]) for row in made.rejects()] == [(transferia(2, 99).encode(), unknown(99))]

    # What another tool writes by the number that the registry gave.
    decoded, _ = changeling.decode([transferia(4, WITH_NOTE)], "transferia")
    numbered = msgspec.structs.replace(schema_from_json(decoded["schema"][0].as_py()), id=51).to_json()
    place = decoded.schema.get_field_index("schema")
    written, _ = changeling.encode(decoded.set_column(place, "schema", [[numbered]]), "transferia", schema_id=True)
    (line,) = written["value"].to_pylist()
    assert json.loads(line) == json.loads(transferia(4, 51, values=3))
    made.write("bus/1.json", line, transferia(5, 50), transferia(6, 99))
    made.pipeline.run(once=True)
    second = [change("bus", 4, LEARNED, 51), change("bus", 5, DECLARED, 50)]
    assert logged(made) == [*first[:2], *second, first[2]]
    assert sorted(row["raw"] for row in made.rejects()) == [transferia(number, 99).encode() for number in (2, 6)]

    made = pipeline(tmp_path, {**RULE, "id": 50}, {**RULE, "name": "users", "id": 99})
    assert made.pipeline.replay() == {"bus": (2, 0)}
    late = [change("bus", 2, DECLARED, 50), change("bus", 6, DECLARED, 50)]
    assert logged(made) == [first[0], late[0], first[1], *second, late[1], first[2]]
    assert made.rejects() == []
    made.write("bus/2.json", transferia(7, 99))
    made.pipeline.run(once=True)
    # What it names holds again after the schema that was learned.
    assert change("bus", 7, DECLARED, 100) in logged(made)


def test_a_number_that_is_taken_cannot_be_declared(spark: SparkSession, tmp_path: Path) -> None:
    made = pipeline(tmp_path)
    made.write("bus/0.json", transferia(1, COLUMNS))
    made.pipeline.run(once=True)
    made = pipeline(tmp_path, {**RULE, "id": 1, "name": "public.orders"})
    with pytest.raises(ChangelingError) as caught:
        made.pipeline.run(once=True)
    taken = "the schema id 1 is that of public.users, version 1, already"
    assert str(caught.value) == f"table public.orders: {taken}"
