"""Tables as the stream describes them: which description applies to which message."""

from collections.abc import Callable, Hashable, Sequence

import msgspec
import numpy as np

from changeling.model.errors import ChangelingError
from changeling.model.table import TableName
from changeling.postgres import catalog
from changeling.postgres.catalog import Connection
from changeling.postgres.column_rules import ColumnRules
from changeling.postgres.frames import Frames, WireColumn, WireRelation, relation, type_name
from changeling.postgres.published_table import PublishedTable
from changeling.postgres.relation import PgColumn, PgType, Relation

Resolve = Callable[[int, str, str, str, Sequence[WireColumn]], Relation]
"""Completes a description: oid, schema and name of a table, the letter of its replica identity, and its columns.

The catalog knows the types by oid, and the primary key where the identity is full or nothing. A type that was dropped may
stay without a name.
"""
Rules = Callable[[TableName], ColumnRules | None]

_RELATION, _TYPE = ord("R"), ord("Y")
_HALF = np.uint64(32)


class Resolver:
    """Completes a Relation message from the catalog: type names, not-null columns, and the primary key where the identity has none.

    It queries the catalog once for each type.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._types: dict[int, PgType] = {}
        self._spelled: dict[tuple[int, int], str] = {}

    def __call__(
        self, oid: int, schema: str, name: str, identity: str, columns: Sequence[tuple[str, int, int, bool]]
    ) -> Relation:
        """The relation of a message; its columns are (name, type oid, typmod, whether it is part of the identity)."""
        self._learn({kind for _, kind, _, _ in columns}, {(kind, typmod) for _, kind, typmod, _ in columns})
        known = catalog.IDENTITIES[identity]
        key = tuple(column for column, _, _, flagged in columns if flagged)
        if known in ("full", "nothing"):
            primary = catalog.key_of(self._connection, oid)
            # The catalog is the current one: a key with columns that the stream lacks is newer than the message.
            key = primary if {column for column, *_ in columns}.issuperset(primary) else ()
        required = catalog.required(self._connection, oid)
        return Relation(
            oid,
            TableName(self._connection.info.dbname, schema, name),
            tuple(
                PgColumn(column, self._types[kind], typmod, self._spelled[kind, typmod], column not in required)
                for column, kind, typmod, _ in columns
            ),
            key,
            known,
        )

    def _learn(self, kinds: set[int], spelled: set[tuple[int, int]]) -> None:
        if new := kinds - self._types.keys():
            self._types |= catalog.types_of(self._connection, new)
        for kind, typmod in spelled - self._spelled.keys():
            row = self._connection.execute("SELECT format_type(%s, %s)", (kind, typmod)).fetchone()
            # The server prints "???" for a dropped type.
            self._spelled[kind, typmod] = str(row[0]) if row and self._types[kind].name else ""


class _Description:
    """One Relation message, and the number of its version once it was resolved."""

    def __init__(self, wire: WireRelation, message: int) -> None:
        self.wire, self.message = wire, message
        self.number: int | None = None


class Versions:
    """Collects the descriptions chunk by chunk. Equal ones are one version, however often the server sends them."""

    def __init__(self, database: str, resolve: Resolve, rules: Rules | None) -> None:
        self._database, self._resolve = database, resolve
        self._rules: Rules = rules or (lambda table: None)
        self._types: dict[int, tuple[str, str]] = {}
        self._known: dict[Relation, int] = {}
        self._descriptions: list[_Description] = []
        self._starts = np.zeros(0, np.uint64)
        self._shapes: dict[Hashable, int] = {}
        self.tables: list[PublishedTable] = []
        """By their numbers."""
        self.shapes: list[int] = []
        """The shape number of each table; rows of equal shapes can be read together."""

    def learn(self, frames: Frames) -> None:
        """Adds the descriptions of a chunk; earlier ones apply until a new one of the same table."""
        found = []
        for message in np.flatnonzero((frames.letters == _RELATION) | (frames.letters == _TYPE)).tolist():
            body = frames.body(message)
            if frames.letters[message] == _TYPE:
                oid, *names = type_name(body)
                self._types[oid] = (names[0], names[1])
            else:
                found.append(_Description(relation(body), message + 1))
        if found or any(description.message for description in self._descriptions):
            self._arrange(found)

    def _arrange(self, found: list[_Description]) -> None:
        """Sorts them by table and message. Of earlier chunks, the last description of each table is kept."""
        before = {description.wire.oid: description for description in self._descriptions}
        for description in before.values():
            description.message = 0
        self._descriptions = sorted(
            [*before.values(), *found], key=lambda description: (description.wire.oid, description.message)
        )
        self._starts = _places(
            np.array([description.wire.oid for description in self._descriptions], np.int64),
            np.array([description.message for description in self._descriptions], np.int64),
        )

    def at(self, oids: np.ndarray, messages: np.ndarray) -> np.ndarray:
        """The index in `tables` of each of these oids, as described before these messages of the chunk."""
        places = np.searchsorted(self._starts, _places(oids, messages + 1), "right") - 1
        known = self._starts[np.maximum(places, 0)] >> _HALF if len(self._starts) else np.zeros(len(oids), np.uint64)
        unknown = (places < 0) | (known != oids.astype(np.uint64))
        if unknown.any():
            raise ChangelingError(
                f"the replication stream changes table {int(oids[np.argmax(unknown)])} before it describes it:"
                " was it read from its middle?"
            )
        numbers = np.full(len(self._descriptions), -1, np.int64)
        for place in np.flatnonzero(np.bincount(places, minlength=len(numbers))).tolist():
            numbers[place] = self._number(self._descriptions[place])
        return numbers[places]

    def _number(self, description: _Description) -> int:
        """The version of a description, which is resolved when the first change needs it."""
        if description.number is None:
            wire = description.wire
            resolved = _as_described(wire, self._resolve(*wire), self._database, self._types)
            if resolved not in self._known:
                table = PublishedTable(resolved, self._rules(resolved.table))
                self.tables.append(table)
                self.shapes.append(self._shapes.setdefault(table.shape, len(self._shapes)))
                self._known[resolved] = len(self.tables) - 1
            description.number = self._known[resolved]
        return description.number


def _places(oids: np.ndarray, messages: np.ndarray) -> np.ndarray:
    """Oids and messages as numbers that sort by both."""
    return (oids.astype(np.uint64) << _HALF) | messages.astype(np.uint64)


def _as_described(wire: WireRelation, resolved: Relation, database: str, types: dict[int, tuple[str, str]]) -> Relation:
    """The resolved relation, corrected by the stream: the catalog shows the present, not the time of the message."""
    if [column.name for column in resolved.columns] != [column.name for column in wire.columns]:
        raise ChangelingError(f"{wire.schema}.{wire.name}: its resolved columns differ from those in the stream")
    key, flagged = resolved.key, tuple(column.name for column in wire.columns if column.is_identity)
    if wire.identity in "di" and set(key) != set(flagged):
        key = flagged
    columns = tuple(_with_type_name(column, types) for column in resolved.columns)
    table = TableName(database, wire.schema, wire.name)
    return msgspec.structs.replace(resolved, oid=wire.oid, table=table, columns=columns, key=key)


def _with_type_name(column: PgColumn, types: dict[int, tuple[str, str]]) -> PgColumn:
    if column.type.name or column.type.oid not in types:
        return column
    schema, name = types[column.type.oid]
    kind = msgspec.structs.replace(column.type, schema=schema, name=name)
    return msgspec.structs.replace(column, type=kind, spelled=f"{schema}.{name}")
