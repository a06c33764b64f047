"""A slot of a test, and what is read from it."""

from typing import Any

import pyarrow as pa

from changeling.model import arrow_layouts
from changeling.model.change import Change
from changeling.model.table import TableName
from changeling.postgres import catalog
from changeling.postgres.pgoutput import PgOutput
from changeling.postgres.relation import PgColumn, PgType, Relation
from changeling.postgres.table_versions import Resolver
from tests.postgres.server import Database


class Replication:
    """A publication and a slot of all that is written from now on."""

    def __init__(self, database: Database, publication: str = "FOR ALL TABLES") -> None:
        self.database = database
        self.slot = f"slot_{database.name}"
        # The server sends only what is on its disk.
        database.execute(
            "SET synchronous_commit = on",
            f"CREATE PUBLICATION p {publication}",
            f"SELECT pg_create_logical_replication_slot('{self.slot}', 'pgoutput')",
        )

    def messages(self) -> list[bytes]:
        found = self.database.connection.execute(
            f"SELECT data FROM pg_logical_slot_peek_binary_changes('{self.slot}', NULL, NULL, "
            "'proto_version', '1', 'publication_names', 'p', 'messages', 'true')",
            binary=True,
        )
        return [row[0] for row in found.fetchall()]

    def output(self, **options: Any) -> PgOutput:
        given = {"slot": self.slot, "commits": range(2**63 - 1), **options}
        return PgOutput("shop", self.database.name, Resolver(self.database.connection), **given)

    def changes(self, **options: Any) -> list[Change]:
        """All changes, read in one chunk."""
        return changes_of([self.output(**options).decode(self.messages())])

    def relation(self, name: str) -> Relation:
        """A table as the catalog has it now."""
        found = catalog.tables(self.database.connection, [name])
        return catalog.relations(self.database.connection, found, stored_generated=False)[0]


def changes_of(batches: list[pa.RecordBatch]) -> list[Change]:
    for batch in batches:
        batch.validate(full=True)
    return [change for batch in batches for change in arrow_layouts.changes(batch)]


def pg_type(name: str, **more: Any) -> PgType:
    return PgType(0, "pg_catalog", name, **more)


def array_of(item: PgType) -> PgType:
    return PgType(0, item.schema, f"_{item.name}", "array", item)


def relation_of(columns: dict[str, PgType], key: tuple[str, ...] = ()) -> Relation:
    made = tuple(PgColumn(name, kind, -1, kind.name) for name, kind in columns.items())
    return Relation(1, TableName("db", "public", "t"), made, key)
