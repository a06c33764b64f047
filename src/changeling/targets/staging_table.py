"""Rows on their way: Spark's tasks copy them into a table of the target database that stands aside until they are applied.

A task may run twice, and both may get to the end: each attempt marks its rows, and only those of attempts that Spark counts
are taken.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from pyspark import TaskContext
from pyspark.sql import DataFrame

from changeling.postgres.connection import connect, unreachable
from changeling.replicas.shape import Shape
from changeling.replicas.staged_rows import column_name
from changeling.spark.adapter import run
from changeling.spark.errors import translated_errors
from changeling.targets.column_types import type_in
from changeling.targets.copy_text import copied, copy_text
from changeling.targets.snapshot_diff import COUNT
from changeling.targets.table_mapping import SERVICE
from changeling.targets.unsupported_values import any_of, unfit

_CONNECTIONS = 8
"""How many tasks copy at once: the server has others to serve."""
_TOLD = pa.schema([("part", pa.int64()), ("rows", pa.int64()), ("misfits", pa.int64())])
PART = sql.Identifier("part")


@dataclass(frozen=True)
class Staged:
    """Rows that wait in the target database."""

    table: sql.Identifier
    parts: tuple[int, ...]
    """The attempts whose rows count."""
    rows: int
    """How many there are of these."""
    misfits: int
    """Rows that came or went and cannot be in PostgreSQL."""

    @property
    def counts(self) -> sql.Composable:
        """The condition for rows that count."""
        return sql.SQL("{} = ANY({})").format(PART, sql.Literal(list(self.parts)))


def create_stage(connection: "psycopg.Connection[tuple[object, ...]]", name: str, shape: Shape) -> sql.Identifier:
    """Makes an empty table for rows on their way."""
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


def stage(url: str, table: sql.Identifier, rows: DataFrame, shape: Shape) -> Staged:
    """Copies rows, with `n`, into their table; raises `ChangelingError` where a task cannot."""
    kernel = CopyKernel(url, table, shape)
    with translated_errors():
        told = run(rows.coalesce(_CONNECTIONS), kernel, _TOLD).toArrow()
    counts = {name: pc.sum(told.column(name)).as_py() or 0 for name in ("rows", "misfits")}
    return Staged(table, tuple(told.column("part").to_pylist()), counts["rows"], counts["misfits"])


@dataclass(frozen=True)
class CopyKernel:
    """Copies the rows of a task; tells its attempt, how many rows it copied, and how many do not fit."""

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
        yield pa.record_batch([[part], [rows], [misfits]], schema=_TOLD)

    def _columns(self, batch: pa.RecordBatch, part: int) -> list[pa.Array]:
        own = [
            copied(batch.column(column_name(place)), column.kind, type_in(self.shape, column))
            for place, column in enumerate(self.shape.columns)
        ]
        return [pa.repeat(pa.scalar(part, pa.int64()), batch.num_rows), batch.column(COUNT), *own]

    def _fitting(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """The rows that PostgreSQL can have, and how many of the others there are.

        A row that comes and does not fit takes the place of one that did: that one goes.
        """
        key = set(self.shape.key)
        found = {
            column.id: unfit(batch.column(column_name(place)), column.kind, in_key=column.id in key)
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
        made = pa.Table.from_batches([fitting, pa.record_batch(columns, schema=gone.schema)])
        return made.combine_chunks().to_batches(max_chunksize=None)[0] if made.num_rows else fitting, misfits.num_rows

    def _emptied(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """A column of rows that go: of their values the key alone is needed."""
        if name == COUNT:
            return pa.repeat(pa.scalar(-1, pa.int64()), batch.num_rows)
        keys = {column_name(place) for place, column in enumerate(self.shape.columns) if column.id in self.shape.key}
        return batch.column(name) if name in keys else pa.nulls(batch.num_rows, batch.schema.field(name).type)


def drop_stages(connection: "psycopg.Connection[tuple[object, ...]]", tables: Sequence[sql.Identifier]) -> None:
    """Drops tables of rows on their way; one that a forgotten task still writes stays for the next time."""
    for table in tables:
        try:
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
        except psycopg.errors.LockNotAvailable:
            continue
