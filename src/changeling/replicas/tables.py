"""Replicas as Iceberg tables: their names, how they are created, how their columns change, and the state in each commit."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import msgspec
import pyarrow as pa

from changeling.iceberg.lake import PROPERTIES, Lake, quoted
from changeling.iceberg.parquet_files import WriteSpec
from changeling.iceberg.table_definition import TableDefinition
from changeling.log import log_tables
from changeling.replicas.metadata_columns import SERVICE, service_names
from changeling.replicas.replica_names import replica_names
from changeling.replicas.replica_reader import (
    BEHIND,
    FORMER,
    IDENTITY,
    SHAPE,
    STATE,
    Identity,
    Replica,
    ReplicaState,
    found_replica,
)
from changeling.replicas.shape import ReplicaColumn, Shape
from changeling.replicas.stored_types import arrow_type, is_promotion, sql_type
from changeling.spark.errors import translated_errors

_LONGEST = 120
"""The maximum length of a folder's name; file systems allow no more than 255."""
_PLAIN = re.compile(r"[A-Za-z0-9_.\-]+")
_MERGED = {
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
    "write.distribution-mode": "none",
}


class ReplicaTables:
    """The replicas of a pipeline, in `<pipeline>_replica`."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake.in_namespace(f"{lake.namespace}_replica")
        self._log = lake
        self.known: dict[Identity, Replica] = {}
        self._names: dict[Identity, str] = {}
        for name in self.lake.names():
            found = self._found(name)
            if found is not None:
                self.known[found.identity] = found

    def _found(self, name: str) -> Replica | None:
        iceberg_table = self.lake.load(TableDefinition(name, pa.schema([])))
        return found_replica(name, self.lake.entries(iceberg_table.properties()), *self._state(iceberg_table))

    def _state(self, iceberg_table: Any) -> tuple[ReplicaState, int | None]:
        current = iceberg_table.currentSnapshot()
        return _state_of(iceberg_table, current), None if current is None else current.snapshotId()

    def snapshots(self, replica: Replica) -> set[int]:
        """The ids of the snapshots that a replica still has."""
        return {snapshot.snapshotId() for snapshot in self.lake.load(replica.table).snapshots()}

    def state_at(self, replica: Replica, snapshot: int) -> ReplicaState:
        """The state in a snapshot, or in the last one before it that has one."""
        iceberg_table = self.lake.load(replica.table)
        found = iceberg_table.snapshot(snapshot)
        return _state_of(iceberg_table, found)

    def make_room(self, coming: Iterable[Identity]) -> list[str]:
        """Gives replicas the names that they have alongside new ones, and returns which of them were renamed."""
        self._names = replica_names({*self.known, *coming})
        held = {replica.name for replica in self.known.values()}
        renamed = [replica for replica in self.known.values() if replica.name != self._names[replica.identity]]
        # First those whose new name is free already.
        renamed.sort(key=lambda replica: self._names[replica.identity] in held)
        return [self._rename(replica, self._names[replica.identity]) for replica in renamed]

    def _rename(self, replica: Replica, name: str) -> str:
        # The old name is noted first: the replica is found in earlier points even after an interruption.
        former = tuple(dict.fromkeys((replica.name, *replica.former)))
        noted = _text(msgspec.json.encode(former).decode())
        self.lake.retried(f"ALTER TABLE {self.lake.name(replica.table)} SET TBLPROPERTIES ('{FORMER}' = '{noted}')")
        renamed = self.note(replace(replica, name=name, former=former))
        self.lake.rename(replica.table, renamed.table)
        return (
            f"the replica of {replica.identity.table} of source {replica.identity.source} is called {name} from now on, "
            f"no longer {replica.name}: there is another table that could be called so"
        )

    def create(self, identity: Identity, shape: Shape) -> Replica:
        """Creates a replica without rows."""
        if not self.known:
            self.lake.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.`{self.lake.namespace}`")
        name = self._names.get(identity) or replica_names({*self.known, identity})[identity]
        made = Replica(name, identity, shape)
        self._create(made)
        self.known[identity] = made
        return made

    def _create(self, made: Replica) -> None:
        own = [f"{quoted(column.name)} {sql_type(column.kind)}" for column in made.shape.columns]
        kind = made.identity.kind
        names = service_names(made.shape, kind)
        own += [f"{quoted(name)} {entry[2]}" for name, entry in zip(names, SERVICE[kind], strict=True)]
        self.lake.sql(
            f"CREATE TABLE {self.lake.name(made.table)} ({', '.join(own)}) USING iceberg {self._location(made)} "
            f"TBLPROPERTIES ({_listed(properties(made))})"
        )

    def _location(self, made: Replica) -> str:
        """Names are data: one with odd letters must not become a path, nor is one that another replica had a free place."""
        name = made.name
        is_left = any(name in known.former for known in self.known.values())
        if _PLAIN.fullmatch(name) and not name.startswith(".") and len(name) <= _LONGEST and not is_left:
            return ""
        place = str(self._log.load(log_tables.CHANGES).location()).rsplit("/", 2)[0]
        # With letters that plain names do not have, so that no two names have one folder.
        folder = quote(name, safe="").replace(".", "%2E").replace("~", "%7E").replace("%", "!")
        if len(folder) > _LONGEST:
            folder = f"{folder[:_LONGEST]}_{sha256(name.encode()).hexdigest()[:16]}"
        if is_left:
            folder = f"{folder}!{uuid4().hex}"
        return f"LOCATION '{place}/{self.lake.namespace}/{folder}'"

    def can_alter(self, replica: Replica, shape: Shape) -> bool:
        """Whether a replica can have other columns without its rows being rewritten."""
        before = {column.id: column for column in replica.shape.columns}
        kind = replica.identity.kind
        return (
            all(is_promotion(before[one.id].kind, one.kind) for one in shape.columns if one.id in before)
            and not _takes_a_name(before, shape)
            and replica.shape.key == shape.key
            and service_names(shape, kind) == service_names(replica.shape, kind)
        )

    def transaction(self, iceberg_table: Any, replica: Replica, shape: Shape) -> Any:
        """A transaction of a replica's table, in which it has the columns of a shape: rows are committed together with them."""
        change = iceberg_table.newTransaction()
        if shape != replica.shape:
            update = change.updateSchema()
            self._alter(update, replica.shape, shape)
            update.commit()
            change.updateProperties().set(SHAPE, msgspec.json.encode(shape).decode()).commit()
        return change

    def write_spec(self, replica: Replica, shape: Shape) -> WriteSpec:
        """Where files of a replica are written that are committed together with the columns of a shape."""
        with translated_errors():
            altered = self.transaction(self.lake.load(replica.table), replica, shape).table()
            return self.lake.write_spec_of(altered, replace(replica, shape=shape).table)

    def _alter(self, update: Any, former: Shape, shape: Shape) -> None:
        before = {column.id: column for column in former.columns}
        kept = {column.id for column in shape.columns}
        for number, column in before.items():
            if number not in kept:
                update.deleteColumn(column.name)
        for column in shape.columns:
            old = before.get(column.id)
            if old is None:
                update.addColumn(None, column.name, self._java_type(column))
                continue
            if arrow_type(old.kind) != arrow_type(column.kind):
                update.updateColumn(old.name, self._java_type(column))
            if old.name != column.name:
                update.renameColumn(old.name, column.name)

    def _java_type(self, column: ReplicaColumn) -> Any:
        jvm = self.lake.jvm
        spark_type = jvm.org.apache.spark.sql.types.DataType.fromDDL(f"c {sql_type(column.kind)}")
        schema = jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(spark_type)
        return schema.findField("c").type()

    def note(self, replica: Replica) -> Replica:
        """Updates the known state of a replica."""
        self.known[replica.identity] = replica
        return replica

    def committed(self, replica: Replica, state: ReplicaState) -> Replica:
        """The replica after a commit: with its new snapshot."""
        snapshot = self.lake.load(replica.table).currentSnapshot()
        return self.note(replace(replica, state=state, snapshot=None if snapshot is None else snapshot.snapshotId()))

    def leave_behind(self, replica: Replica) -> None:
        """Notes that a replica misses changes: it must be rebuilt before it continues."""
        if not replica.behind:
            self.lake.retried(f"ALTER TABLE {self.lake.name(replica.table)} SET TBLPROPERTIES ('{BEHIND}' = 'true')")
            self.note(replace(replica, behind=True))

    def catch_up(self, replica: Replica) -> Replica:
        """Notes that a replica has all changes again."""
        if replica.behind:
            self.lake.retried(f"ALTER TABLE {self.lake.name(replica.table)} UNSET TBLPROPERTIES ('{BEHIND}')")
        return self.note(replace(replica, behind=False))

    def drop(self, replica: Replica) -> None:
        """Removes a replica with its files."""
        self.lake.sql(f"DROP TABLE {self.lake.name(replica.table)} PURGE")
        self.known.pop(replica.identity, None)


def _takes_a_name(before: Mapping[str, ReplicaColumn], shape: Shape) -> bool:
    """Whether a column gets the name of another one that stays: Iceberg cannot do both in one commit."""
    staying = {before[column.id].name: column.id for column in shape.columns if column.id in before}
    return any(staying.get(column.name, column.id) != column.id for column in shape.columns)


def _state_of(iceberg_table: Any, snapshot: Any) -> ReplicaState:
    """The state in a snapshot, or in the last one before it that has one: snapshots of maintenance have none."""
    while snapshot is not None:
        text = snapshot.summary().get(STATE)
        if text is not None:
            return msgspec.json.decode(text, type=ReplicaState)
        parent = snapshot.parentId()
        snapshot = None if parent is None else iceberg_table.snapshot(parent)
    return ReplicaState()


def properties(replica: Replica) -> dict[str, str]:
    """The table properties of a replica."""
    return {
        **PROPERTIES,
        **_MERGED,
        IDENTITY: msgspec.json.encode(replica.identity).decode(),
        SHAPE: msgspec.json.encode(replica.shape).decode(),
        **({FORMER: msgspec.json.encode(replica.former).decode()} if replica.former else {}),
    }


def _listed(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{_text(name)}' = '{_text(value)}'" for name, value in options.items())


def _text(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
