"""Relations as the stream tells them, made whole from the catalog: names of types, what is never null, and the primary key where the identity is none."""

from collections.abc import Sequence

from changeling.model.table import TableName
from changeling.postgres import catalog
from changeling.postgres.catalog import Connection
from changeling.postgres.relation import PgColumn, PgType, Relation


class Resolver:
    """Asks the catalog once for each type."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._types: dict[int, PgType] = {}
        self._spelled: dict[tuple[int, int], str] = {}

    def __call__(
        self, oid: int, schema: str, name: str, identity: str, columns: Sequence[tuple[str, int, int, bool]]
    ) -> Relation:
        """The relation of a message: its columns as (name, number of the type, typmod, whether it identifies rows)."""
        self._learn({kind for _, kind, _, _ in columns}, {(kind, typmod) for _, kind, typmod, _ in columns})
        known = catalog.IDENTITIES[identity]
        key = tuple(column for column, _, _, flagged in columns if flagged)
        if known in ("full", "nothing"):
            primary = catalog.key_of(self._connection, oid)
            # The catalog is that of today: a key of which the stream has not all columns is none of it.
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
            # For a type that is gone the server writes question marks.
            self._spelled[kind, typmod] = str(row[0]) if row and self._types[kind].name else ""
