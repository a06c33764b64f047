"""Staging: Spark tasks copy rows into a staging table of the target database, from which they are applied.

A task may run twice, and both attempts may complete: each attempt marks its rows, and only those of the attempts that Spark
commits are used.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from pyspark import TaskContext

from changeling.postgres.connection import connect, unreachable
from changeling.replicas.shape import Shape
from changeling.replicas.staged_rows import column_name
from changeling.spark.adapter import run
from changeling.spark.errors import translated_errors
from changeling.targets.column_types import type_in
from changeling.targets.copy_text import copied, copy_text
from changeling.targets.snapshot_diff import COUNT, Rows
from changeling.targets.table_mapping import SERVICE
from changeling.targets.unsupported_values import any_of, find_unsupported

_CONNECTIONS = 8
"""How many tasks copy at once: the server has other clients."""
_COPIED = pa.schema([("part", pa.int64()), ("rows", pa.int64()), ("misfits", pa.int64())])
PART = sql.Identifier("part")


@dataclass(frozen=True)
class Staged:
    """Rows in a staging table of the target database."""

    table: sql.Identifier
    parts: tuple[int, ...]
    """The attempts whose rows are valid."""
    rows: int
    """How many rows they copied."""
    misfits: int
    """Changed rows that PostgreSQL cannot store."""

    @property
    def counts(self) -> sql.Composable:
        """The condition for valid rows."""
        return sql.SQL("{} = ANY({})").format(PART, sql.Literal(list(self.parts)))


def create_stage(connection: "psycopg.Connection[tuple[object, ...]]", name: str, shape: Shape) -> sql.Identifier:
    """Creates an empty staging table."""
    table = sql.Identifier(SERVICE, name)
    columns = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(column_name(place)), sql.SQL(type_in(shape, column)))
        for place, column in enumerate(shape.columns)
    )
    connection.execute(
        sql.SQL(
            "CREATE UNLOGGED TABLE {} ({} bigint NOT NULL, {} bigint NOT NULL, {}) WITH (autovacuum_enabled = false)"
        ).format(table, PART, sql.Identifier(COUNT), columns)
    )
    return table


def stage(url: str, table: sql.Identifier, rows: Rows, shape: Shape) -> Staged:
    """Copies rows, with `n`, into their staging table; raises `ChangelingError` where a task fails."""
    kernel = CopyKernel(url, table, shape)
    if isinstance(rows, pa.Table):
        copied_parts = pa.Table.from_batches(kernel(rows.to_batches()), _COPIED)
    else:
        with translated_errors():
            copied_parts = run(rows.coalesce(_CONNECTIONS), kernel, _COPIED).toArrow()
    counts = {name: pc.sum(copied_parts.column(name)).as_py() or 0 for name in ("rows", "misfits")}
    return Staged(table, tuple(copied_parts.column("part").to_pylist()), counts["rows"], counts["misfits"])


@dataclass(frozen=True)
class CopyKernel:
    """Copies the rows of a task; returns its attempt, how many rows it copied, and how many PostgreSQL cannot store."""

    url: str = field(repr=False)
    table: sql.Identifier
    shape: Shape

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One batch with one row, or nothing where the task has no rows."""
        rest = iter(batches)
        first = next((batch for batch in rest if batch.num_rows), None)
        if first is None:
            return
        context = TaskContext.get()
        part = 0 if context is None else context.taskAttemptId()
        rows = misfits = 0
        try:
            command = sql.SQL("COPY {} FROM STDIN (FORMAT csv)").format(self.table)
            with connect(self.url) as connection, connection.cursor() as cursor, cursor.copy(command) as copy:
                for batch in chain([first], rest):
                    fitting, wrong = self._fitting(batch)
                    rows, misfits = rows + fitting.num_rows, misfits + wrong
                    if fitting.num_rows:
                        copy.write(copy_text(self._columns(fitting, part)))
        except psycopg.Error as error:
            raise unreachable(self.url, error) from None
        yield pa.record_batch([[part], [rows], [misfits]], schema=_COPIED)

    def _columns(self, batch: pa.RecordBatch, part: int) -> list[pa.Array]:
        own = [
            copied(batch.column(column_name(place)), column.kind, type_in(self.shape, column))
            for place, column in enumerate(self.shape.columns)
        ]
        return [pa.repeat(pa.scalar(part, pa.int64()), batch.num_rows), batch.column(COUNT), *own]

    def _fitting(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """The rows that PostgreSQL can store, and the number of the others.

        If the new version of a row cannot be stored, its old version is deleted.
        """
        key = set(self.shape.key)
        found = {
            column.id: find_unsupported(batch.column(column_name(place)), column.kind, in_key=column.id in key)
            for place, column in enumerate(self.shape.columns)
        }
        wrong = any_of(list(chain.from_iterable(found.values())), batch.num_rows)
        if wrong is None:
            return batch, 0
        fitting, misfits = batch.filter(pc.invert(wrong)), batch.filter(wrong)
        if not key:
            return fitting, misfits.num_rows
        lost = any_of(list(chain.from_iterable(found[number] for number in key)), batch.num_rows)
        going = pc.and_(wrong, pc.greater(batch.column(COUNT), 0))
        if lost is not None:
            going = pc.and_(going, pc.invert(lost))
        gone = batch.filter(going)
        columns = [self._emptied(gone, name) for name in gone.schema.names]
        joined = pa.Table.from_batches([fitting, pa.record_batch(columns, schema=gone.schema)])
        return joined.combine_chunks().to_batches(max_chunksize=None)[
            0
        ] if joined.num_rows else fitting, misfits.num_rows

    def _emptied(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """A column of rows to delete: only the key is needed."""
        if name == COUNT:
            return pa.repeat(pa.scalar(-1, pa.int64()), batch.num_rows)
        keys = {column_name(place) for place, column in enumerate(self.shape.columns) if column.id in self.shape.key}
        return batch.column(name) if name in keys else pa.nulls(batch.num_rows, batch.schema.field(name).type)


def drop_stages(connection: "psycopg.Connection[tuple[object, ...]]", tables: Sequence[sql.Identifier]) -> None:
    """Drops staging tables; one that an orphaned task still writes is left for the next time."""
    for table in tables:
        try:
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
        except psycopg.errors.LockNotAvailable:
            continue
