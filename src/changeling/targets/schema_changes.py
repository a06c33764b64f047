"""Creates and alters the tables of a target, to match the shapes of their replicas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from changeling.model.errors import ChangelingError
from changeling.replicas.shape import ReplicaColumn, Shape
from changeling.targets.column_types import column_types, keeps_values, type_in
from changeling.targets.table_mapping import TargetTable

Connection = psycopg.Connection[tuple[object, ...]]
_TEMPORARY = "changeling {} temporary"


@dataclass(frozen=True)
class ExistingTable:
    """A table, or another relation of its name, from PostgreSQL's catalog."""

    oid: int
    kind: str
    columns: dict[str, str]
    """Types by name."""
    key: tuple[str, ...] = ()
    constraint: str | None = None
    """The name of the primary key."""

    @property
    def is_table(self) -> bool:
        """Whether it is an ordinary table, with rows of its own."""
        return self.kind == "r"


def existing_tables(connection: Connection, places: list[TargetTable]) -> dict[TargetTable, ExistingTable]:
    """The relations that exist under these names."""
    rows = connection.execute(
        """
        SELECT n.nspname, c.relname, c.oid, c.relkind::text,
               coalesce((SELECT json_object_agg(a.attname, format_type(a.atttypid, a.atttypmod))
                         FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '{}'),
               coalesce((SELECT json_agg(a.attname ORDER BY k.place)
                         FROM unnest(p.conkey) WITH ORDINALITY AS k(number, place)
                         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number), '[]'),
               p.conname
        FROM unnest(%s::text[], %s::text[]) AS wanted(schema, name)
        JOIN pg_namespace n ON n.nspname = wanted.schema
        JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.name
        LEFT JOIN pg_constraint p ON p.conrelid = c.oid AND p.contype = 'p'
        """,
        ([place.schema for place in places], [place.table for place in places]),
    ).fetchall()
    found: dict[TargetTable, ExistingTable] = {}
    for schema, table, oid, kind, columns, key, constraint in rows:
        assert isinstance(columns, dict)
        assert isinstance(key, list)
        name = None if constraint is None else str(constraint)
        found[TargetTable(str(schema), str(table))] = ExistingTable(int(str(oid)), str(kind), columns, tuple(key), name)
    return found


def check_unchanged(place: TargetTable, existing: ExistingTable, shape: Shape) -> None:
    """Raises `ChangelingError` where somebody else altered a table of the target, or replaced it."""
    if not existing.is_table:
        raise ChangelingError(f"{place} was recreated by somebody else and is not an ordinary table: move it away")
    for name, kind in column_types(shape).items():
        found = existing.columns.get(name)
        if found != kind:
            state = "no longer exists" if found is None else f"was {kind} and is {found}"
            raise ChangelingError(
                f"column {name!r} of table {place} {state}: somebody else altered it. Change it back, or drop the table: "
                "then it is created again"
            )
    key = tuple(column.source_name for column in shape.key_columns)
    if existing.key and existing.key != key:
        raise ChangelingError(
            f"the primary key of table {place} was ({', '.join(key)}) and is ({', '.join(existing.key)}): somebody else altered "
            "it. Change it back, or drop the table: then it is created again"
        )


def check_fits(connection: Connection, place: TargetTable, existing: ExistingTable, shape: Shape) -> None:
    """Raises `ChangelingError` unless a table that somebody else created is empty and has the columns of a replica."""
    wanted = column_types(shape)
    key = tuple(column.source_name for column in shape.key_columns)
    problem = None
    if not existing.is_table:
        problem = "is not an ordinary table"
    elif existing.columns != wanted:
        odd = sorted(name for name in {*wanted, *existing.columns} if wanted.get(name) != existing.columns.get(name))
        name = odd[0]
        has, expected = existing.columns.get(name, "missing"), wanted.get(name, "none")
        problem = f"has other columns: {name!r} is {has}, the replica's is {expected}"
    elif existing.key and existing.key != key:
        problem = f"has the primary key ({', '.join(existing.key)}), the replica's is ({', '.join(key)})"
    elif connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(place.quoted)).fetchone() is not None:
        problem = "has rows"
    if problem is not None:
        raise ChangelingError(
            f"table {place} existed before and {problem}: it is left alone. Move it away, or take it out of `tables`"
        )


def is_kept(old: Shape, new: Shape) -> bool:
    """Whether the rows of a table stay valid when its columns change so."""
    before = {column.id: column for column in old.columns}
    return old.key == new.key and all(
        keeps_values(before[column.id].kind, column.kind) for column in new.columns if column.id in before
    )


def create(connection: Connection, place: TargetTable, shape: Shape) -> bool:
    """Creates a table without its key, and its schema if it does not exist; returns whether the schema was created."""
    known = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (place.schema,)).fetchone()
    if known is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(place.schema)))
    columns = sql.SQL(", ").join(_declared(shape, column) for column in shape.columns)
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(place.quoted, columns))
    return known is None


def add_key(connection: Connection, place: TargetTable, shape: Shape) -> None:
    """Adds the primary key to a table that has none."""
    if shape.key:
        connection.execute(
            sql.SQL("ALTER TABLE {} ADD PRIMARY KEY ({})").format(place.quoted, names(shape.key_columns))
        )


def drop_key(connection: Connection, place: TargetTable, constraint: str, shape: Shape) -> None:
    """Drops the primary key and the NOT NULL of its columns."""
    actions = [sql.SQL("DROP CONSTRAINT {}").format(sql.Identifier(constraint))]
    actions += [
        sql.SQL("ALTER COLUMN {} DROP NOT NULL").format(sql.Identifier(column.source_name))
        for column in shape.key_columns
    ]
    _alter(connection, place, actions)


def empty(connection: Connection, place: TargetTable) -> None:
    """Deletes all rows."""
    connection.execute(sql.SQL("DELETE FROM {}").format(place.quoted))


def alter(connection: Connection, place: TargetTable, old: Shape, new: Shape) -> None:
    """Alters a table to the columns of another shape. If its rows are not kept (`is_kept`), it must be empty."""
    before = {column.id: column for column in old.columns}
    kept = {column.id for column in new.columns}
    gone = [column for column in old.columns if column.id not in kept]
    _alter(connection, place, [sql.SQL("DROP COLUMN {}").format(sql.Identifier(column.source_name)) for column in gone])
    _rename(
        connection,
        place,
        {before[column.id].source_name: column.source_name for column in new.columns if column.id in before},
    )
    actions: list[sql.Composable] = []
    for column in new.columns:
        if column.id not in before:
            actions.append(sql.SQL("ADD COLUMN {}").format(_declared(new, column)))
        elif type_in(old, before[column.id]) != type_in(new, column):
            actions.append(_retyped(new, before[column.id], column))
    _alter(connection, place, actions)


def _retyped(new: Shape, was: ReplicaColumn, column: ReplicaColumn) -> sql.Composable:
    name, kind = sql.Identifier(column.source_name), sql.SQL(type_in(new, column))
    value = sql.SQL("{}::{}").format(name if keeps_values(was.kind, column.kind) else sql.NULL, kind)
    return sql.SQL("ALTER COLUMN {} TYPE {} USING {}").format(name, kind, value)


def _rename(connection: Connection, place: TargetTable, renamed: Mapping[str, str]) -> None:
    """Renames columns; since names may be swapped, all of them get temporary names first."""
    moved = {old: new for old, new in renamed.items() if old != new}
    temporary = {old: old for old in moved}
    if set(moved) & set(moved.values()):
        temporary = {old: _TEMPORARY.format(place) for place, old in enumerate(moved)}
    for old, between in temporary.items():
        if old != between:
            _rename_one(connection, place, old, between)
    for old, new in moved.items():
        _rename_one(connection, place, temporary[old], new)


def _rename_one(connection: Connection, place: TargetTable, old: str, new: str) -> None:
    statement = sql.SQL("ALTER TABLE {} RENAME COLUMN {} TO {}")
    connection.execute(statement.format(place.quoted, sql.Identifier(old), sql.Identifier(new)))


def _alter(connection: Connection, place: TargetTable, actions: Sequence[sql.Composable]) -> None:
    if actions:
        connection.execute(sql.SQL("ALTER TABLE {} {}").format(place.quoted, sql.SQL(", ").join(actions)))


def _declared(shape: Shape, column: ReplicaColumn) -> sql.Composable:
    return sql.SQL("{} {}").format(sql.Identifier(column.source_name), sql.SQL(type_in(shape, column)))


def names(columns: list[ReplicaColumn]) -> sql.Composable:
    """The names of columns, separated by commas."""
    return sql.SQL(", ").join(sql.Identifier(column.source_name) for column in columns)
