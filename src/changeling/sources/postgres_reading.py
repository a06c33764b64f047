"""Runs in the tasks: reads the parts of a plan over a database and decodes them into changes."""

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from changeling.model import layout
from changeling.model.errors import ChangelingError
from changeling.model.position import encode
from changeling.model.table import TableName
from changeling.postgres.catalog import Connection, matches
from changeling.postgres.column_rules import ColumnRules
from changeling.postgres.connection import connect, unreachable
from changeling.postgres.pgoutput import PgOutput
from changeling.postgres.relation import Relation
from changeling.postgres.relation_messages import to_texts
from changeling.postgres.rows import Blocks, read_rows
from changeling.postgres.slot import Slot
from changeling.postgres.table_versions import Resolver
from changeling.sources.postgres_plan import Part, Snapshot, Stream

Read = tuple[pa.RecordBatch, pa.RecordBatch]

_MESSAGES = 20_000
_WAITING = 4
"""How many chunks of messages may wait to be decoded."""
_NO_REJECTS = pa.RecordBatch.from_pylist([], schema=layout.REJECTS)


@dataclass(frozen=True)
class Tables:
    """What every task knows of the source."""

    source: str
    url: str
    patterns: tuple[str, ...] = ()
    """The patterns of captured tables: a publication may include others as well."""
    rules: tuple[tuple[tuple[str, str], ColumnRules], ...] = ()
    """By schema and name."""
    filters: tuple[tuple[tuple[str, str], str], ...] = ()
    left_out: frozenset[tuple[str, str]] = frozenset()
    """Tables that are not captured although they match."""

    def rules_of(self, schema: str, name: str) -> ColumnRules | None:
        """The column rules of a table."""
        return dict(self.rules).get((schema, name))

    def captured(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        """The changes of captured tables; of other tables, only the ends of transactions are kept."""
        foreign = self._foreign(changes.column("table"))
        if not foreign.any():
            return changes
        ends = np.asarray(pc.fill_null(pc.struct_field(changes.column("transaction"), "complete"), False))
        kept = pa.array(~foreign | ends)
        return _as_ends(changes.filter(kept), pa.array((foreign & ends)[~foreign | ends]))

    def _foreign(self, tables: pa.StructArray) -> np.ndarray:
        """Which of these tables are not captured."""
        schemas, names = (pc.struct_field(tables, part).dictionary_encode() for part in ("schema", "name"))
        codes = np.asarray(schemas.indices.fill_null(-1), np.int64) * (len(names.dictionary) + 1)
        codes += np.asarray(names.indices.fill_null(-1), np.int64)
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        foreign = [
            table is not None and not self._is_captured(TableName(**table))
            for table in tables.take(pa.array(first)).to_pylist()
        ]
        return np.array(foreign, bool)[inverse]

    def _is_captured(self, table: TableName) -> bool:
        if (table.schema or "", table.name) in self.left_out:
            return False
        return any(matches(pattern, table) for pattern in self.patterns)


@dataclass(frozen=True)
class StreamReader:
    """One task: all messages of the plan, fetched by one thread while another decodes."""

    tables: Tables
    slot: str
    publications: str
    plan: Stream
    notes: list[str] = field(default_factory=list)
    """What the stream described, filled once it was read."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Read]:
        """Changes in the layout `CHANGES`."""
        if not sum(batch.num_rows for batch in batches):
            return
        if self.plan.start < self.plan.end:
            yield from self._changes()
        if self.plan.altered:
            yield _schema_changes(self.tables.source, self.slot, self.plan), _NO_REJECTS

    def _changes(self) -> Iterator[Read]:
        url = self.tables.url
        with closing(connect(url)) as connection, closing(connect(url)) as catalog_connection:
            output = PgOutput(
                source=self.tables.source,
                database=connection.info.dbname,
                resolve=Resolver(catalog_connection),
                slot=self.slot,
                commits=range(self.plan.start, self.plan.end),
                rules=lambda table: self.tables.rules_of(table.schema or "", table.name),
            )
            for chunk in _fetched(url, connection, Slot(url, self.slot), self.publications, self.plan.end):
                for changes in output.batches(chunk):
                    yield self.tables.captured(changes), _NO_REJECTS
            self._check_slot(catalog_connection)
            self.notes.extend(to_texts(output.described))

    def _check_slot(self, connection: Connection) -> None:
        """Raises `ChangelingError` unless the slot still had everything of the plan after it was read."""
        status = Slot(self.tables.url, self.slot).status(connection)
        if status is None or status.lost is not None or status.confirmed > self.plan.start:
            raise ChangelingError(
                f"source {self.tables.source}: the slot {self.slot} was moved, dropped or recreated while it was read, so "
                "changes may be missing. Make sure that nobody else reads it; then `changeling run --resnapshot` snapshots all tables again"
            )


def _as_ends(changes: pa.RecordBatch, ends: pa.Array) -> pa.RecordBatch:
    """The same changes, where those in `ends` only mark the end of their transaction."""
    values = {"op": "commit", "before_image": "none", "after_image": "none"}
    columns = []
    for one, column in zip(changes.schema, changes.columns, strict=True):
        if one.name in ("key", "before", "after", "table", "schema", "meta"):
            column = pc.if_else(pc.invert(ends), column, pa.scalar(None, column.type))
        elif one.name in values:
            column = pc.if_else(ends, values[one.name], column)
        columns.append(column)
    return pa.record_batch(columns, schema=changes.schema)


def _schema_changes(source: str, slot: str, plan: Stream) -> pa.RecordBatch:
    """The schemas of a plan as changes without rows, right before its end; no transaction commits at such a position."""
    rows = [
        {
            "source": source,
            "table": {"catalog": one.table.catalog, "schema": one.table.schema, "name": one.table.name},
            "op": "ddl",
            "before_image": "none",
            "after_image": "none",
            "encoding": "canonical",
            "position": encode(plan.end - 1, 0, number),
            "origin": {"ordinal": number, "record": 0, "topic": slot, "partition": 0, "offset": plan.end},
            "schema": one.schema,
            "arrived": False,
        }
        for number, one in enumerate(plan.altered)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=layout.CHANGES)


def _fetched(url: str, connection: Connection, slot: Slot, publications: str, end: int) -> Iterator[list[bytes]]:
    """The messages of a slot, chunk by chunk; the next ones are fetched in the background."""
    chunks: queue.Queue[list[bytes] | BaseException | None] = queue.Queue(_WAITING)
    stopped = threading.Event()

    def put(what: list[bytes] | BaseException | None) -> None:
        while not stopped.is_set():
            with suppress(queue.Full):
                chunks.put(what, timeout=0.1)
                break

    def fetch() -> None:
        try:
            for chunk in slot.messages(connection, publications, end, _MESSAGES):
                put(chunk)
                if stopped.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=fetch, name="changeling-fetch", daemon=True)
    thread.start()
    try:
        while (chunk := chunks.get()) is not None:
            if isinstance(chunk, psycopg.Error):
                raise unreachable(url, chunk)
            if isinstance(chunk, BaseException):
                raise chunk
            yield chunk
    finally:
        stopped.set()
        if thread.is_alive():
            connection.cancel_safe()
            thread.join(30)


@dataclass(frozen=True)
class SnapshotReader:
    """A task for each part: its rows as the exported snapshot shows them."""

    tables: Tables
    plan: Snapshot
    snapshot: str
    relations: dict[str, Relation]
    """By the table's spelled name."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Read]:
        """Changes in the layout `CHANGES`."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._part(self.plan.parts[number])

    def _part(self, part: Part) -> Iterator[Read]:
        url, relation = self.tables.url, self.relations[part.table.spelled()]
        schema, name = part.table.schema or "", part.table.name
        rules, condition = self.tables.rules_of(schema, name), dict(self.tables.filters).get((schema, name))
        if part.last and self.plan.again:
            yield _truncation(self.tables.source, part, self.plan), _NO_REJECTS
        if not part.name:
            # A partitioned table that has no partitions yet.
            return
        with closing(connect(url)) as connection:
            try:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(self.snapshot))
                leaf = sql.Identifier(part.schema, part.name)
                lock(connection, leaf)
                count = 0
                for rows in read_rows(connection, relation, leaf, Blocks(part.first, part.end), rules, condition):
                    yield _reads(rows, count, self.tables.source, part, self.plan), _NO_REJECTS
                    count += rows.num_rows
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


def lock(connection: Connection, leaf: sql.Identifier) -> None:
    """Prevents a table from being altered until the transaction ends; fails at once where a session waits to alter it.

    That session waits for the lock of the snapshot's owner: queueing behind it would be a deadlock.
    """
    connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ACCESS SHARE MODE NOWAIT").format(leaf))


def check_alive(reader: SnapshotReader) -> str | None:
    """Why the snapshot of a plan can no longer be read, or None."""
    try:
        with closing(connect(reader.tables.url)) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(reader.snapshot))
            for part in reader.plan.parts:
                if part.name:
                    lock(connection, sql.Identifier(part.schema, part.name))
    except (psycopg.Error, ChangelingError) as error:
        return " ".join(str(error).split())
    return None
