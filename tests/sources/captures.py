"""Pipelines that capture a PostgreSQL database, and its tables to compare whole with their replicas."""

from pathlib import Path
from typing import Any
from uuid import UUID

from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from tests.log.lakes import SMALL, Shop, shop
from tests.postgres.server import Database


def capture(folder: Path, database: Database, *others: dict[str, Any], **more: Any) -> Shop:
    """A pipeline that captures all tables of `public`, and has other sources beside it."""
    settings = {"name": "pg", "type": "postgres", "url": database.url, "tables": ["public.*"], **more.pop("source", {})}
    settings.setdefault("slot", f"slot_{database.name}")
    return shop(folder, settings, *others, **{"spark": SMALL, **more})


def replica(made: Shop, name: str) -> list[dict[str, Any]]:
    """All rows of a replica, in an order of their own."""
    found = tables_of(load(made.file)).in_namespace("shop_replica").load(f"public__{name}")
    assert found is not None, name
    return sorted(found.scan().to_arrow().to_pylist(), key=repr)


def source(database: Database, name: str) -> list[dict[str, Any]]:
    """All rows of a table, in the same order."""
    cursor = database.connection.execute(f'SELECT * FROM public."{name}"')
    names = [column.name for column in cursor.description or ()]
    rows = [[str(value) if isinstance(value, UUID) else value for value in row] for row in cursor.fetchall()]
    return sorted((dict(zip(names, row, strict=True)) for row in rows), key=repr)


def assert_equal(made: Shop, database: Database, *names: str) -> None:
    for name in names:
        assert replica(made, name) == source(database, name), name
