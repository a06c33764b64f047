"""Replicas as they are now, without Spark."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from changeling.iceberg.reader import Tables
from changeling.model.table import TableName
from changeling.replicas.shape import Shape
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
    asides: int = 0
    """How many values were ever quarantined."""
    shape: Shape = Shape(())
    """The columns that the rows of this snapshot have."""
    version: int | None = None
    """The version of the schema that gave them, and the position of the last change that had it."""
    version_at: str = ""
    plan: str = ""
    """The point as it was planned: whoever finds one replica ahead of the others continues with the same plan."""


@dataclass(frozen=True)
class Found:
    """A replica in the catalog."""

    name: str
    identity: Identity
    shape: Shape
    state: ReplicaState
    behind: bool = False


def replicas(tables: Tables, pipeline: str) -> Iterator[Found]:
    """All replicas of a pipeline."""
    namespace = tables.in_namespace(f"{pipeline}_replica")
    for name in namespace.names():
        table = namespace.load(name)
        if table is None or IDENTITY not in table.properties:
            continue
        snapshot = table.current_snapshot()
        said: Mapping[str, str] = {}
        while snapshot is not None:
            said = {} if snapshot.summary is None else snapshot.summary.additional_properties
            if STATE in said or snapshot.parent_snapshot_id is None:
                break
            snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id)
        yield Found(
            name,
            msgspec.json.decode(table.properties[IDENTITY], type=Identity),
            msgspec.json.decode(table.properties[SHAPE], type=Shape),
            msgspec.json.decode(said[STATE], type=ReplicaState) if STATE in said else ReplicaState(),
            BEHIND in table.properties,
        )


def current(tables: Tables, pipeline: str, wanted: WantedTable) -> tuple[pa.Table, Shape] | None:
    """The rows of a replica now; None where the table has none. Raises `UsageError` where several fit the name."""
    known = {
        (one.identity.source, one.identity.table): one
        for one in replicas(tables, pipeline)
        if one.identity.kind == "rows"
    }
    place = wanted.among(known)
    if place is None or known[place].behind:
        return None
    held = tables.in_namespace(f"{pipeline}_replica").load(known[place].name)
    return None if held is None else (held.scan().to_arrow(), known[place].shape)
