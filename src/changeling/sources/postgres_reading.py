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

from changeling.model import arrow_layouts
from changeling.model.errors import ChangelingError
from changeling.model.position import encode
from changeling.model.table import TableName
from changeling.postgres.catalog import Connection, matches
from changeling.postgres.column_rules import ColumnRules
from changeling.postgres.connection import connect, unreachable
from changeling.postgres.pgoutput import PgOutput
from changeling.postgres.relation_messages import to_texts
from changeling.postgres.slot import Slot
from changeling.postgres.table_versions import Resolver
from changeling.sources.postgres_plan import Stream

Read = tuple[pa.RecordBatch, pa.RecordBatch]

_MESSAGES = 20_000
_WAITING = 4
"""How many chunks of messages may wait to be decoded."""
NO_REJECTS = pa.RecordBatch.from_pylist([], schema=arrow_layouts.REJECTS)


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
            yield _schema_changes(self.tables.source, self.slot, self.plan), NO_REJECTS

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
                    yield self.tables.captured(changes), NO_REJECTS
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
    return pa.RecordBatch.from_pylist(rows, schema=arrow_layouts.CHANGES)


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
