"""Runs in the tasks: reads parts of tables under a snapshot, which lives until DDL on them has to be let through."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from time import monotonic, sleep

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from changeling.model import layout
from changeling.model.errors import ChangelingError
from changeling.model.position import encode
from changeling.postgres.catalog import Connection
from changeling.postgres.connection import connect, unreachable
from changeling.postgres.published_table import PublishedTable
from changeling.postgres.relation import Relation
from changeling.postgres.rows import Blocks, read_rows
from changeling.sources.postgres_plan import Part, Snapshot
from changeling.sources.postgres_reading import NO_REJECTS, Read, Tables

_LOCK_SECONDS = 1.0
"""How long a session that waits to alter a table may take to give up, before its table is left to it."""


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

    def _part(self, part: Part) -> Iterator[Read]:
        url, relation = self.tables.url, self.relations[part.table.spelled()]
        schema, name = part.table.schema or "", part.table.name
        rules, condition = self.tables.rules_of(schema, name), dict(self.tables.filters).get((schema, name))
        if part.last and self.plan.replaces_rows:
            yield _truncation(self.tables.source, part, self.plan), NO_REJECTS
        if not part.name:
            # A partitioned table that has no partitions yet.
            yield _schema(self.tables.source, part, self.plan, PublishedTable(relation, rules)), NO_REJECTS
            return
        with ExitStack() as opened:
            try:
                connection = self.held or opened.enter_context(closing(_importing(url, self.snapshot)))
                leaf = sql.Identifier(part.schema, part.name)
                if self.held is None:
                    _lock_in_time(connection, leaf)
                count = 0
                for rows in read_rows(connection, relation, leaf, Blocks(part.first, part.end), rules, condition):
                    yield _reads(rows, count, self.tables.source, part, self.plan), NO_REJECTS
                    count += rows.num_rows
                if part.last and not count:
                    yield _schema(self.tables.source, part, self.plan, PublishedTable(relation, rules)), NO_REJECTS
            except psycopg.Error as error:
                raise unreachable(url, error) from None


def _reads(rows: pa.RecordBatch, before: int, source: str, part: Part, plan: Snapshot) -> pa.RecordBatch:
    """Rows as changes; positions come from row numbers in the range, so reading it again gives the same positions."""
    count = rows.num_rows
    numbers = pa.array(np.arange(before + 1, before + count + 1)).cast(pa.string())
    lengths = pc.utf8_lpad(pc.binary_length(numbers).cast(pa.string()), 2, "0")
    prefix = encode(plan.point, 0, part.leaf, part.first)
    positions = pc.binary_join_element_wise(f"{prefix}.", lengths, numbers, "")
    return _changes(
        count,
        source,
        part,
        plan,
        op="read",
        after_image="full",
        key=rows.column("key"),
        after=rows.column("after"),
        position=positions,
        schema=rows.column("schema"),
        offset=numbers.cast(pa.int64()),
    )


def _truncation(source: str, part: Part, plan: Snapshot) -> pa.RecordBatch:
    """A truncate before the snapshot, which contains all rows that the source has."""
    position = pa.array([encode(plan.point, 0)], pa.string())
    return _changes(1, source, part, plan, op="truncate", after_image="none", position=position)


def _schema(source: str, part: Part, plan: Snapshot, table: PublishedTable) -> pa.RecordBatch:
    """The schema alone, so that a table without rows has a replica, too."""
    position = pa.array([encode(plan.point, 0, part.leaf, part.first)], pa.string())
    schema = pa.array([table.schema_text], pa.string())
    return _changes(1, source, part, plan, op="ddl", after_image="none", position=position, schema=schema)


def _changes(
    count: int,
    source: str,
    part: Part,
    plan: Snapshot,
    *,
    op: str,
    after_image: str,
    position: pa.Array,
    key: pa.Array | None = None,
    after: pa.Array | None = None,
    schema: pa.Array | None = None,
    offset: pa.Array | None = None,
) -> pa.RecordBatch:
    def same(value: object, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), count)

    place = {
        "topic": same(f"snapshot {part.schema}.{part.name}", pa.string()),
        "partition": same(part.leaf, pa.int32()),
        "offset": offset if offset is not None else same(0, pa.int64()),
        "record": same(part.first, pa.int64()),
        "ordinal": same(plan.point, pa.int64()),
        "file": pa.nulls(count, pa.string()),
    }
    columns = {
        "source": same(source, pa.string()),
        "table": layout.tables_array([part.table]).take(pa.array(np.zeros(count, np.int32))),
        "op": same(op, pa.string()),
        "key": key,
        "after": after,
        "before_image": same("none", pa.string()),
        "after_image": same(after_image, pa.string()),
        "encoding": same("canonical", pa.string()),
        "position": position,
        "commit_time": same(plan.moment, pa.int64()),
        "origin": pa.StructArray.from_arrays([place[one.name] for one in layout.ORIGIN], fields=list(layout.ORIGIN)),
        "schema": schema,
        "arrived": same(False, pa.bool_()),
    }
    return pa.RecordBatch.from_arrays(
        [pa.nulls(count, one.type) if (found := columns.get(one.name)) is None else found for one in layout.CHANGES],
        names=layout.CHANGES.names,
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
