"""Pipelines with replicas for tests, and their tables to compare whole."""

import json
from pathlib import Path
from typing import Any

from changeling.log import log_tables
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import load
from changeling.replicas.points import points_of
from tests.log.lakes import Shop, shop

SOURCE = {"name": "bus", "type": "files", "path": "in/*.json", "format": "transferia"}
Columns = dict[str, str]
_COMPARED: set[Path] = set()
USERS: Columns = {"id": "int64", "name": "utf8", "n": "int32"}


def bus(folder: Path, **more: Any) -> Shop:
    """A pipeline that reads Transferia's items from `in/*.json`."""
    return shop(folder, SOURCE, **more)


def item(
    number: int,
    kind: str,
    row: dict[str, Any] | None = None,
    old: dict[str, Any] | None = None,
    *,
    table: str = "users",
    columns: Columns = USERS,
    key: tuple[str, ...] = ("id",),
    order: int = 0,
    time: int | None = None,
) -> str:
    """One change of transaction `number`, which commits in second `number` unless `time` says otherwise."""
    schema = [{"name": name, "type": of, "key": name in key, "required": False} for name, of in columns.items()]
    return json.dumps(
        {
            "kind": kind,
            "schema": "public",
            "table": table,
            "id": number,
            "nextlsn": number,
            "commitTime": 1_700_000_000_000_000_000 + (number if time is None else time) * 1_000_000_000,
            "txPosition": order,
            "columnnames": [] if row is None else list(row),
            "columnvalues": [] if row is None else list(row.values()),
            "table_schema": [] if kind == "truncate" else schema,
            "oldkeys": {} if old is None else {"keynames": list(old), "keyvalues": list(old.values())},
        }
    )


def moment(number: int) -> str:
    """When transaction `number` commits, unless it says otherwise."""
    seconds = 1_700_000_000 + number
    return f"2023-11-14T{22 + (seconds - 1_699_999_200) // 3600:02d}:{(seconds // 60) % 60:02d}:{seconds % 60:02d}Z"


def replica(made: Shop, name: str = "public__users") -> list[dict[str, Any]]:
    """All rows of a replica, as PyIceberg reads it, in an order of their own."""
    found = tables_of(load(made.file)).in_namespace("shop_replica").load(name)
    assert found is not None
    return sorted(found.scan().to_arrow().to_pylist(), key=repr)


def replicas(made: Shop) -> list[str]:
    """The names of all replicas."""
    return sorted(tables_of(load(made.file)).in_namespace("shop_replica").names())


def then(made: Shop, table: str = "public.users", **when: Any) -> list[dict[str, Any]]:
    """The rows of a table then; the first answer of a pipeline is compared with Spark's, which takes a second and more."""
    found = made.pipeline.rows(table, **when)
    if made.folder in _COMPARED:
        return sorted(found.to_pylist(), key=repr)
    _COMPARED.add(made.folder)
    on_spark = made.pipeline.replica(table, **when).toArrow()
    assert (on_spark.column_names, sorted(on_spark.to_pylist(), key=repr)) == (
        found.column_names,
        sorted(found.to_pylist(), key=repr),
    )
    return sorted(found.to_pylist(), key=repr)


def quarantine_entries(made: Shop) -> list[tuple[Any, ...]]:
    """The quarantine: table, key, column, value."""
    rows = made.rows(log_tables.QUARANTINE)
    return sorted((row["table"]["name"], row["key"], row["column"], row["value"]) for row in rows)


def points(made: Shop) -> list[dict[str, Any]]:
    """The points, without moments and snapshots."""
    return [
        {
            "point": point.number,
            "complete": point.complete,
            "sources": point.to_row()["sources"],
            "tables": sorted(point.tables),
        }
        for point in points_of(tables_of(load(made.file))).all()
    ]
