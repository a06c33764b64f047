"""The catalog of a test, asked for a table."""

from changeling.postgres import catalog
from changeling.postgres.catalog import CatalogTable
from changeling.postgres.relation import PgType, Relation
from tests.postgres.server import Database

INT4 = PgType(23, "pg_catalog", "int4")
TEXT = PgType(25, "pg_catalog", "text")


def found(database: Database, *patterns: str) -> list[CatalogTable]:
    return catalog.tables(database.connection, patterns or ("*.*",))


def relation(database: Database, name: str, *, stored_generated: bool = True) -> Relation:
    (made,) = catalog.relations(database.connection, found(database, name), stored_generated=stored_generated)
    return made


def oid_of(database: Database, table: str) -> int:
    return int(database.rows(f"SELECT '{table}'::regclass::oid")[0][0])


def type_oid(database: Database, name: str) -> int:
    return int(database.rows(f"SELECT '{name}'::regtype::oid")[0][0])
