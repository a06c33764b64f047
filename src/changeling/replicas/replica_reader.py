"""Replicas, and how they are found and read as they are now without Spark."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot

from changeling.iceberg.reader import Tables
from changeling.iceberg.table_definition import TableDefinition
from changeling.model.table import TableName
from changeling.replicas.metadata_columns import SERVICE, service_names
from changeling.replicas.shape import Shape
from changeling.replicas.stored_types import arrow_type
from changeling.replicas.table_lookup import WantedTable

STATE = "changeling.replica"
IDENTITY = "changeling.table"
SHAPE = "changeling.shape"
BEHIND = "changeling.behind"
"""The replica missed changes, since its table was in another mode for a time."""
FORMER = "changeling.names"
"""The names that a replica had before."""


class Identity(msgspec.Struct, frozen=True):
    """Whose rows a replica has: stored with the table."""

    source: str
    table: TableName
    kind: str = "rows"
    """`rows`, `history` or `changes`."""


class ReplicaState(msgspec.Struct, frozen=True):
    """The state of a replica, stored in its commits."""

    point: int = 0
    applied: int = 0
    """Changes that were folded into it, in all."""
    late: int = 0
    ties: int = 0
    """Changes that were taken for repetitions, though other changes of their row have the same position."""
    quarantined: int = msgspec.field(default=0, name="asides")
    """How many values were ever quarantined."""
    shape: Shape = Shape(())
    """The columns that the rows of this snapshot have."""
    version: int | None = None
    """The version of the schema that gave them, and the position of the last change that had it."""
    version_at: str = ""
    plan: str = ""
    """The point as it was planned: whoever finds one replica ahead of the others continues with the same plan."""


@dataclass(frozen=True)
class Replica:
    """One replica."""

    name: str
    identity: Identity
    shape: Shape
    state: ReplicaState = field(default_factory=ReplicaState)
    snapshot: int | None = None
    """The current snapshot; None as long as it never had a row."""
    behind: bool = False
    """It missed changes, since its table was in another mode for a time."""
    former: tuple[str, ...] = ()
    """The names it had before, the last one first: earlier points know it by them."""

    def snapshot_in(self, tables: Mapping[str, int]) -> int | None:
        """The one of its snapshots among those of a point, which has them by name; None where it has none."""
        return next((tables[name] for name in (self.name, *self.former) if name in tables), None)

    @property
    def is_current(self) -> bool:
        """It has rows, and missed no changes."""
        return self.snapshot is not None and not self.behind

    @property
    def table(self) -> TableDefinition:
        """As the lake knows it."""
        return TableDefinition(self.name, columns_of(self.shape, self.identity.kind))


def columns_of(shape: Shape, kind: str) -> pa.Schema:
    """All columns of a replica."""
    own = [(column.name, arrow_type(column.kind)) for column in shape.columns]
    service = zip(service_names(shape, kind), (entry[1] for entry in SERVICE[kind]), strict=True)
    return pa.schema([*own, *service])


def found_replica(
    name: str, properties: Mapping[str, str], state: ReplicaState, snapshot: int | None
) -> Replica | None:
    """A table in the namespace of the replicas, by its properties; None where it is none of ours."""
    if IDENTITY not in properties:
        return None
    return Replica(
        name,
        msgspec.json.decode(properties[IDENTITY], type=Identity),
        msgspec.json.decode(properties[SHAPE], type=Shape),
        state,
        snapshot,
        BEHIND in properties,
        msgspec.json.decode(properties.get(FORMER, "[]"), type=tuple[str, ...]),
    )


def loaded_replicas(tables: Tables, pipeline: str) -> Iterator[tuple[Replica, IcebergTable]]:
    """All replicas of a pipeline, each with its table."""
    namespace = tables.in_namespace(f"{pipeline}_replica")
    for name in namespace.names():
        table = namespace.load(name)
        if table is None:
            continue
        current = table.current_snapshot()
        found = found_replica(
            name, table.properties, state_at(table, current), None if current is None else current.snapshot_id
        )
        if found is not None:
            yield found, table


def replicas(tables: Tables, pipeline: str) -> Iterator[Replica]:
    """All replicas of a pipeline."""
    return (replica for replica, _ in loaded_replicas(tables, pipeline))


def state_at(table: IcebergTable, snapshot: Snapshot | None) -> ReplicaState:
    """The state in a snapshot, or in the last one before it that has one: snapshots of maintenance have none."""
    while snapshot is not None:
        summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
        if STATE in summary:
            return msgspec.json.decode(summary[STATE], type=ReplicaState)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return ReplicaState()


def current(tables: Tables, pipeline: str, wanted: WantedTable) -> tuple[pa.Table, Shape] | None:
    """The rows of a replica now; None where the table has none. Raises `UsageError` where several fit the name."""
    known = {
        (one.identity.source, one.identity.table): (one, table)
        for one, table in loaded_replicas(tables, pipeline)
        if one.identity.kind == "rows"
    }
    place = wanted.among(known)
    if place is None or known[place][0].behind:
        return None
    replica, table = known[place]
    return table.scan().to_arrow(), replica.shape
