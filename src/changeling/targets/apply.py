"""Applies staged rows to their tables, in statements that other sessions see at once, or not at all.

Rows are deleted, never truncated: a reader with an older snapshot keeps seeing its rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from psycopg import sql

from changeling.model.errors import ChangelingError
from changeling.replicas.shape import ReplicaColumn, Shape
from changeling.replicas.staged_rows import column_name
from changeling.targets.schema_changes import Connection, names
from changeling.targets.snapshot_diff import COUNT
from changeling.targets.staging_table import Staged
from changeling.targets.table_mapping import TargetTable

_N = sql.Identifier(COUNT)


class ApplyMode(Enum):
    """What the staged rows of a table contain."""

    CHANGES = "changes"
    """The differences from the rows that it has."""
    ALL = "all"
    """All of its rows: it is empty, or is emptied first."""
    COMPARED = "compared"
    """All of its rows, by key: only those that differ are written."""


@dataclass(frozen=True)
class Applied:
    """How many rows were written and deleted."""

    written: int
    deleted: int
    missing: int = 0
    """Rows that should have been deleted and did not exist."""


def check_complete(connection: Connection, staged: Staged) -> None:
    """Raises `ChangelingError` unless all staged rows exist: a crash of the server empties their unlogged table."""
    query = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(staged.table, staged.counts)
    found = connection.execute(query).fetchone()
    if found is None or found[0] != staged.rows:
        raise ChangelingError(
            f"{0 if found is None else found[0]} of {staged.rows} staged rows exist: the server was restarted"
        )


def apply(connection: Connection, place: TargetTable, shape: Shape, staged: Staged, mode: ApplyMode) -> Applied:
    """Applies staged rows to their table, within the open transaction."""
    statements = _Statements(place, shape, staged)
    if mode is ApplyMode.ALL:
        deleted = _count(connection, statements.delete_all())
        return Applied(_count(connection, statements.insert(copies=False)), deleted)
    if mode is ApplyMode.COMPARED:
        deleted = _count(connection, statements.delete_others())
        return Applied(_count(connection, statements.upsert(only_different=True)), deleted)
    deletes = _number(connection, statements.count_deletes())
    if shape.key:
        deleted = _count(connection, statements.delete_by_key())
        return Applied(_count(connection, statements.upsert()), deleted, deletes - deleted)
    deleted = _count(connection, statements.delete_equal())
    return Applied(_count(connection, statements.insert(copies=True)), deleted, deletes - deleted)


class _Statements:
    def __init__(self, place: TargetTable, shape: Shape, staged: Staged) -> None:
        self._table, self._shape, self._staged = place.quoted, shape, staged
        self._places = {column.id: sql.Identifier(column_name(at)) for at, column in enumerate(shape.columns)}
        self._rest = [column for column in shape.columns if column.id not in shape.key]

    def _from(self, alias: str, sign: str) -> sql.Composable:
        """The valid rows to write (`>`) or delete (`<`), under an alias."""
        return sql.SQL("(SELECT * FROM {} WHERE {} AND {} {} 0) AS {}").format(
            self._staged.table, self._staged.counts, _N, sql.SQL(sign), sql.Identifier(alias)
        )

    def _same_key(self, one: str, other: str) -> sql.Composable:
        """Rows of two aliases have the same key: `t` is the table, the others are staged."""
        pairs = [
            sql.SQL("{} = {}").format(self._of(one, column), self._of(other, column))
            for column in self._shape.key_columns
        ]
        return sql.SQL(" AND ").join(pairs)

    def _of(self, alias: str, column: ReplicaColumn) -> sql.Composable:
        name = sql.Identifier(column.source_name) if alias in ("t", "excluded") else self._places[column.id]
        return sql.SQL("{}.{}").format(sql.Identifier(alias), name)

    def _row(self, alias: str, columns: Iterable[ReplicaColumn]) -> sql.Composable:
        """A row as text: equal for equal values of any type, NULL and `json` included."""
        return sql.SQL("ROW({})::text").format(sql.SQL(", ").join(self._of(alias, column) for column in columns))

    def _values(self) -> sql.Composable:
        return sql.SQL(", ").join(self._of("s", column) for column in self._shape.columns)

    def delete_all(self) -> sql.Composed:
        return sql.SQL("DELETE FROM {}").format(self._table)

    def delete_others(self) -> sql.Composed:
        return sql.SQL("DELETE FROM {} AS t WHERE NOT EXISTS (SELECT FROM {} WHERE {})").format(
            self._table, self._from("s", ">"), self._same_key("s", "t")
        )

    def delete_by_key(self) -> sql.Composed:
        return sql.SQL("DELETE FROM {} AS t USING {} WHERE {} AND {}").format(
            self._table, self._from("s", "<"), self._same_key("s", "t"), self._not_written()
        )

    def _not_written(self) -> sql.Composable:
        return sql.SQL("NOT EXISTS (SELECT FROM {} WHERE {})").format(self._from("u", ">"), self._same_key("u", "s"))

    def count_deletes(self) -> sql.Composed:
        if self._shape.key:
            return sql.SQL("SELECT count(*) FROM {} WHERE {}").format(self._from("s", "<"), self._not_written())
        return sql.SQL("SELECT coalesce(-sum(s.{}), 0) FROM {}").format(_N, self._from("s", "<"))

    def delete_equal(self) -> sql.Composed:
        """As many of the equal rows as are to be deleted."""
        own, other = (self._row(alias, self._shape.columns) for alias in ("t", "s"))
        return sql.SQL(
            "DELETE FROM {table} WHERE ctid IN (SELECT place FROM (SELECT t.ctid AS place, -s.{n} AS going, "
            "row_number() OVER (PARTITION BY {own}) AS copy FROM {table} AS t JOIN {rows} ON {own} = {other}) AS found "
            "WHERE copy <= going)"
        ).format(table=self._table, n=_N, own=own, other=other, rows=self._from("s", "<"))

    def insert(self, *, copies: bool) -> sql.Composed:
        """The rows to write, each once, or `n` times."""
        often = sql.SQL(", generate_series(1, s.{})").format(_N) if copies else sql.SQL("")
        return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}{}").format(
            self._table, names(list(self._shape.columns)), self._values(), self._from("s", ">"), often
        )

    def upsert(self, *, only_different: bool = False) -> sql.Composed:
        statement = sql.SQL("INSERT INTO {} AS t ({}) SELECT {} FROM {} ON CONFLICT ({}) DO {}")
        return statement.format(
            self._table,
            names(list(self._shape.columns)),
            self._values(),
            self._from("s", ">"),
            names(self._shape.key_columns),
            self._update(only_different),
        )

    def _update(self, only_different: bool) -> sql.Composable:
        if not self._rest:
            return sql.SQL("NOTHING")
        written = sql.SQL(", ").join(
            sql.SQL("{} = {}").format(sql.Identifier(column.source_name), self._of("excluded", column))
            for column in self._rest
        )
        if not only_different:
            return sql.SQL("UPDATE SET {}").format(written)
        own, other = (self._row(alias, self._rest) for alias in ("t", "excluded"))
        return sql.SQL("UPDATE SET {} WHERE {} <> {}").format(written, own, other)


def _count(connection: Connection, statement: sql.Composed) -> int:
    return connection.execute(statement).rowcount


def _number(connection: Connection, query: sql.Composed) -> int:
    found = connection.execute(query).fetchone()
    assert found is not None
    return int(str(found[0]))
