"""Tables that a pipeline has seen, in a catalog of their own: replicas, schemas and points, written without Spark."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from changeling.iceberg.catalog import catalog
from changeling.iceberg.reader import Tables
from changeling.iceberg.table_definition import TableDefinition
from changeling.log import log_tables
from changeling.model.table import TableName
from changeling.replicas.points import Point
from changeling.replicas.replica_reader import IDENTITY, SHAPE, STATE, Identity, ReplicaState
from changeling.replicas.shape import ReplicaColumn, Shape

NAMESPACE = "shop"
KEYED = Shape((ReplicaColumn("id@1", "id", "int64"), ReplicaColumn("name@1", "name", "string")), ("id@1",))


def tables_in(folder: Path) -> Tables:
    """The tables of the pipeline `shop` whose warehouse is `folder/lake`."""
    return Tables(catalog(str(folder / "lake"), folder, {}), NAMESPACE)


def add_replica(tables: Tables, source: str, table: str, point: int = 0, shape: Shape = KEYED) -> None:
    """A replica of a table, at a point."""
    identity = Identity(source, TableName.parse(table))
    properties = {name: msgspec.json.encode(one).decode() for name, one in ((IDENTITY, identity), (SHAPE, shape))}
    replicas = tables.in_namespace(f"{NAMESPACE}_replica")
    rows = TableDefinition(f"{source}_{identity.table.name}", pa.schema([("id", pa.int64())]))
    made = _add(replicas, rows, (), properties)
    state = msgspec.json.encode(ReplicaState(point=point)).decode()
    made.append(pa.table({"id": [1]}), snapshot_properties={STATE: state})


def add_schemas(tables: Tables, *names: tuple[str, str]) -> None:
    """Registered schemas of tables, each with its source."""
    rows = [
        {"id": place, "source": source, "table": msgspec.to_builtins(TableName.parse(name))}
        for place, (source, name) in enumerate(names)
    ]
    _add(tables, log_tables.SCHEMAS, rows)


def add_points(tables: Tables, *numbers: int) -> None:
    """Points, one commit each as a run makes them."""
    made = _add(tables, log_tables.POINTS, ())
    for number in numbers:
        row = Point(number, datetime.now(UTC)).to_row()
        made.append(pa.Table.from_pylist([row], log_tables.POINTS.columns))


def _add(
    tables: Tables,
    table: TableDefinition,
    rows: Iterable[Mapping[str, Any]],
    properties: Mapping[str, str] | None = None,
) -> Any:
    opened = tables.catalog()
    opened.create_namespace_if_not_exists(tables.namespace)
    made = opened.create_table((tables.namespace, table.name), table.columns, properties=dict(properties or {}))
    if found := list(rows):
        made.append(pa.Table.from_pylist(found, table.columns))
    return made
