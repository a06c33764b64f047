"""Which tables a target has, and their names in its database."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psycopg import sql

from changeling.model.errors import ChangelingError
from changeling.model.printable import printable
from changeling.model.table import TableName
from changeling.replicas.replica_reader import Identity
from changeling.replicas.shape import Shape

SERVICE = "changeling"
"""The schema with the state of targets."""
_DEFAULT = "public"
_LONGEST = 63
"""Maximum bytes of a name; PostgreSQL silently truncates longer ones."""
_SYSTEM = {"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"}


@dataclass(frozen=True, order=True)
class TargetTable:
    """The name of a table in PostgreSQL."""

    schema: str
    table: str

    def __str__(self) -> str:
        return printable(TableName(None, self.schema, self.table).spelled())

    @property
    def quoted(self) -> sql.Identifier:
        """The name for SQL, whatever is in it."""
        return sql.Identifier(self.schema, self.table)


def target_table_of(table: TableName) -> TargetTable:
    """The name for a source's table; raises `ChangelingError` where PostgreSQL does not allow it."""
    place = TargetTable(_DEFAULT if table.schema is None else table.schema, table.name)
    for name in (place.schema, place.table):
        _check(name, f"table {place}")
    if place.schema == SERVICE or place.schema == "information_schema" or place.schema.startswith("pg_"):
        raise ChangelingError(f"table {place}: the schema {place.schema!r} is reserved")
    return place


def check_columns(place: TargetTable, shape: Shape) -> None:
    """Raises `ChangelingError` where PostgreSQL does not allow these column names."""
    for column in shape.columns:
        _check(column.source_name, f"column {column.source_name!r} of table {place}")
        if column.source_name in _SYSTEM:
            raise ChangelingError(
                f"column {column.source_name!r} of table {place}: PostgreSQL has a system column of that name"
            )


def _check(name: str, what: str) -> None:
    if len(name.encode()) > _LONGEST:
        raise ChangelingError(
            f"{what}: the name {name!r} has {len(name.encode())} bytes, and PostgreSQL allows {_LONGEST}"
        )
    if not name or "\0" in name:
        raise ChangelingError(f"{what}: {name!r} is not a valid name in PostgreSQL")


class Wanted:
    """The tables that a target is to have, by names and patterns with `*` as the pipeline file lists them."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = {text: _parts(TableName.parse(text)) for text in patterns}

    def has(self, table: TableName) -> bool:
        """Whether a pattern matches: the parts that both have agree."""
        return any(_matches(parts, table) for parts in self._patterns.values())

    def without(self, tables: Iterable[TableName]) -> list[str]:
        """The patterns that match none of these tables."""
        known = list(tables)
        return [text for text, parts in self._patterns.items() if not any(_matches(parts, table) for table in known)]


def _parts(pattern: TableName) -> list[re.Pattern[str] | None]:
    named = (pattern.catalog, pattern.schema, pattern.name)
    return [
        None if part is None else re.compile(".*".join(map(re.escape, part.split("*"))), re.DOTALL) for part in named
    ]


def _matches(parts: Sequence[re.Pattern[str] | None], table: TableName) -> bool:
    own = (table.catalog, table.schema, table.name)
    return all(
        part is None or name is None or part.fullmatch(name) is not None for part, name in zip(parts, own, strict=True)
    )


def target_tables_of(identities: Iterable[Identity]) -> dict[TargetTable, Identity]:
    """The names of tables; raises `ChangelingError` where two would have the same."""
    found: dict[TargetTable, Identity] = {}
    for identity in identities:
        place = target_table_of(identity.table)
        other = found.setdefault(place, identity)
        if other != identity:
            raise ChangelingError(
                f"{other.table} of source {other.source} and {identity.table} of source {identity.source} would both be "
                f"the table {place}: name one of them under `tables`"
            )
    return found
