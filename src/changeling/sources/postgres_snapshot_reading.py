"""Runs in the tasks: reads parts of tables under a snapshot, which lives until DDL on them has to be let through."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from time import monotonic, sleep

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from changeling.model import arrow_layouts
from changeling.model.errors import ChangelingError
from changeling.model.position import encode
from changeling.postgres.catalog import Connection
from changeling.postgres.connection import connect, unreachable
from changeling.postgres.published_table import PublishedTable
from changeling.postgres.relation import Relation
from changeling.postgres.rows import Blocks, read_rows
from changeling.sources.postgres_plan import Snapshot, TablePart
from changeling.sources.postgres_reading import NO_REJECTS, Read, Tables

_LOCK_SECONDS = 1.0
"""How long a session that waits to alter a table may take to give up, before its table is left to it."""
_ONLY = pa.array([0], pa.int64())


@dataclass(frozen=True)
class SnapshotReader:
    """A task for each part: its rows as the exported snapshot shows them."""

    tables: Tables
    plan: Snapshot
    snapshot: str
    relations: dict[str, Relation]
    """By the table's spelled name."""
    held: Connection | None = None
    """A connection with the snapshot and locks on its tables, to read over; only in the driver."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Read]:
        """Changes in the layout `CHANGES`."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._part(self.plan.parts[number])

    def _part(self, part: TablePart) -> Iterator[Read]:
        url, relation = self.tables.url, self.relations[part.table.spelled()]
        schema, name = part.table.schema or "", part.table.name
        rules, condition = self.tables.rules_of(schema, name), dict(self.tables.filters).get((schema, name))
        changes = _PartChanges(self.tables.source, part, self.plan)
        if part.last and self.plan.replaces_rows:
            yield changes.truncation(), NO_REJECTS
        if not part.name:
            # A partitioned table that has no partitions yet.
            yield changes.schema(PublishedTable(relation, rules)), NO_REJECTS
            return
        with ExitStack() as opened:
            try:
                connection = self.held or opened.enter_context(closing(_importing(url, self.snapshot)))
                leaf = sql.Identifier(part.schema, part.name)
                if self.held is None:
                    _lock_in_time(connection, leaf)
                count = 0
                for rows in read_rows(connection, relation, leaf, Blocks(part.first, part.end), rules, condition):
                    yield changes.reads(rows, count), NO_REJECTS
                    count += rows.num_rows
                if part.last and not count:
                    yield changes.schema(PublishedTable(relation, rules)), NO_REJECTS
            except psycopg.Error as error:
                raise unreachable(url, error) from None


@dataclass(frozen=True)
class _PartChanges:
    """A part of a snapshot as changes; positions come from row numbers in it, so reading it again gives the same positions."""

    source: str
    part: TablePart
    plan: Snapshot

    def reads(self, rows: pa.RecordBatch, before: int) -> pa.RecordBatch:
        """Rows, of which `before` precede them in the part."""
        numbers = pa.array(np.arange(before + 1, before + rows.num_rows + 1)).cast(pa.string())
        lengths = pc.utf8_lpad(pc.binary_length(numbers).cast(pa.string()), 2, "0")
        columns = {
            "key": rows.column("key"),
            "after": rows.column("after"),
            "position": pc.binary_join_element_wise(f"{self._position()}.", lengths, numbers, ""),
            "schema": rows.column("schema"),
        }
        return self._changes("read", "full", columns, numbers.cast(pa.int64()))

    def truncation(self) -> pa.RecordBatch:
        """A truncate before the snapshot, which contains all rows that the source has."""
        position = pa.array([encode(self.plan.point, 0)], pa.string())
        return self._changes("truncate", "none", {"position": position}, _ONLY)

    def schema(self, table: PublishedTable) -> pa.RecordBatch:
        """The schema alone, so that a table without rows has a replica, too."""
        columns = {"position": [self._position()], "schema": [table.schema_text]}
        arrays = {name: pa.array(texts, pa.string()) for name, texts in columns.items()}
        return self._changes("ddl", "none", arrays, _ONLY)

    def _position(self) -> str:
        return encode(self.plan.point, 0, self.part.leaf, self.part.first)

    def _changes(self, op: str, after_image: str, given: Mapping[str, pa.Array], offsets: pa.Array) -> pa.RecordBatch:
        def same(value: object, kind: pa.DataType) -> pa.Array:
            return pa.repeat(pa.scalar(value, kind), len(offsets))

        place = {
            "topic": same(f"snapshot {self.part.schema}.{self.part.name}", pa.string()),
            "partition": same(self.part.leaf, pa.int32()),
            "offset": offsets,
            "record": same(self.part.first, pa.int64()),
            "ordinal": same(self.plan.point, pa.int64()),
            "file": pa.nulls(len(offsets), pa.string()),
        }
        columns = {
            **given,
            "source": same(self.source, pa.string()),
            "table": arrow_layouts.tables_array([self.part.table]).take(pa.array(np.zeros(len(offsets), np.int32))),
            "op": same(op, pa.string()),
            "before_image": same("none", pa.string()),
            "after_image": same(after_image, pa.string()),
            "encoding": same("canonical", pa.string()),
            "commit_time": same(self.plan.moment, pa.int64()),
            "origin": pa.StructArray.from_arrays(
                [place[one.name] for one in arrow_layouts.ORIGIN], fields=list(arrow_layouts.ORIGIN)
            ),
            "arrived": same(False, pa.bool_()),
        }
        return pa.RecordBatch.from_arrays(
            [columns.get(one.name, pa.nulls(len(offsets), one.type)) for one in arrow_layouts.CHANGES],
            names=arrow_layouts.CHANGES.names,
        )


def _importing(url: str, snapshot: str) -> Connection:
    """A connection in a transaction that shows a snapshot."""
    connection = connect(url)
    try:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(snapshot))
    except BaseException:
        connection.close()
        raise
    return connection


def _lock(connection: Connection, leaf: sql.Identifier) -> bool:
    """Prevents a table from being altered until the transaction ends; False where a session waits to alter it.

    That session waits for the lock of the snapshot's owner: queueing behind it would be a deadlock.
    """
    try:
        with connection.transaction():
            connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ACCESS SHARE MODE NOWAIT").format(leaf))
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def _lock_in_time(connection: Connection, leaf: sql.Identifier) -> None:
    """The same; raises `ChangelingError` where the session does not give up."""
    end = monotonic() + _LOCK_SECONDS
    while not _lock(connection, leaf):
        if monotonic() > end:
            raise ChangelingError(f"{leaf.as_string()} cannot be read: somebody waits to alter or truncate it")
        sleep(0.05)


@dataclass(frozen=True)
class Unreadable:
    """Why the snapshot of a plan can no longer be read."""

    why: str
    awaited: frozenset[str] = frozenset()
    """The tables that sessions wait to alter, by their spelled names."""


def unreadable(reader: SnapshotReader) -> Unreadable | None:
    """Looks whether the snapshot of a plan can still be read; None where it can."""
    try:
        if reader.held is not None:
            reader.held.execute("SELECT")
            return None
        with closing(_importing(reader.tables.url, reader.snapshot)) as connection:
            awaited = {
                part.table.spelled()
                for part in reader.plan.parts
                if part.name and not _lock(connection, sql.Identifier(part.schema, part.name))
            }
    except (psycopg.Error, ChangelingError) as error:
        return Unreadable(" ".join(str(error).split()))
    if not awaited:
        return None
    return Unreadable(f"somebody waits to alter or truncate {', '.join(sorted(awaited))}", frozenset(awaited))
