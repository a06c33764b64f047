"""Targets for tests, and tables of a replica and of PostgreSQL to compare."""

import json
from datetime import UTC, datetime
from typing import Any

import numpy as np
from psycopg import sql

from changeling.model.types import Type
from changeling.pipelines.lakehouse import lake_of, tables_of
from changeling.pipelines.loading import load
from changeling.replicas.replica_reader import replicas
from changeling.targets.postgres_target import PostgresTarget, TargetReport
from tests.log.lakes import Shop
from tests.postgres.server import Database

Rows = list[tuple[Any, ...]]


def mirror(made: Shop, database: Database, *tables: str, name: str = "mirror") -> PostgresTarget:
    """A target of the pipeline; of all tables unless some are named."""
    return PostgresTarget(lake_of(load(made.file)), name, database.url, tables or ("*",), "shop")


def run(made: Shop, name: str, *records: str) -> None:
    """One more file of records, brought into the replicas."""
    made.write(f"{name}.json", *records)
    made.pipeline.run(once=True)


def step(target: PostgresTarget) -> TargetReport:
    """A step that has something to do."""
    report = target.step()
    assert report is not None
    return report


def there(database: Database, table: str, schema: str = "public") -> list[dict[str, Any]]:
    """All rows of a table of PostgreSQL."""
    names = [
        row[0]
        for row in database.connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE (table_schema, table_name) = (%s, %s) "
            "ORDER BY ordinal_position",
            (schema, table),
        ).fetchall()
    ]
    found = database.connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(schema, table))).fetchall()
    return sorted((dict(zip(names, row, strict=True)) for row in found), key=repr)


def differing(made: Shop, database: Database) -> dict[str, tuple[Rows, Rows]]:
    """The tables whose rows are not those of their replica: what the replica has, and what PostgreSQL has."""
    found = {}
    tables = tables_of(load(made.file))
    for one in replicas(tables, "shop"):
        held = tables.in_namespace("shop_replica").load(one.name)
        if one.identity.kind != "rows" or held is None:
            continue
        columns = one.shape.columns
        theirs = held.scan().to_arrow().select([column.name for column in columns]).to_pylist()
        expected = [tuple(plain(row[column.name], column.kind) for column in columns) for row in theirs]
        place = sql.Identifier(one.identity.table.schema or "public", one.identity.table.name)
        values = sql.SQL(", ").join(_selected(column.source_name, column.kind) for column in columns)
        rows = database.connection.execute(sql.SQL("SELECT {} FROM {}").format(values, place)).fetchall()
        ours = [tuple(plain(value, column.kind) for value, column in zip(row, columns, strict=True)) for row in rows]
        if sorted(expected, key=repr) != sorted(ours, key=repr):
            extra = [row for row in ours if row not in expected]
            found[one.name] = ([row for row in expected if row not in ours], extra)
    return found


def _selected(name: str, kind: Type) -> sql.Composable:
    column = sql.Identifier(name)
    if kind.kind == "json":
        return sql.SQL("{}::text").format(column)
    if kind.item is not None and kind.item.kind == "json":
        return sql.SQL("{}::text[]").format(column)
    return column


def plain(value: Any, kind: Type) -> Any:
    """A value as both sides give it, once it is written so."""
    if value is None:
        return None
    if kind.item is not None:
        return [plain(item, kind.item) for item in value]
    if kind.kind == "json":
        return _document(value)
    if kind.kind in ("decimal", "uint64", "uuid"):
        return str(value)
    if kind.kind == "float32":
        return str(np.float32(value))
    if kind.kind == "float64":
        return repr(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def _document(text: str) -> str:
    """A text among JSON is spelled as JSON."""
    try:
        json.loads(text)
    except ValueError:
        return json.dumps(text, ensure_ascii=False)
    return text
