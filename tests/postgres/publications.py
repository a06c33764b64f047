"""The publication `p` of a test."""

import re
from collections.abc import Mapping

import pytest

from changeling.model.errors import ChangelingError
from changeling.model.table import TableName
from changeling.postgres import catalog
from changeling.postgres.catalog import Connection
from changeling.postgres.publication import Publication
from changeling.postgres.readiness import Server
from tests.postgres.server import Database

SETTINGS = """
SELECT puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot, pubgencols FROM pg_publication WHERE pubname = 'p'
"""


def ensure(
    database: Database,
    *patterns: str,
    connection: Connection | None = None,
    filters: Mapping[str, str] | None = None,
    version: int = 180_000,
    publication: Publication | None = None,
) -> list[str]:
    """The names of the tables that were added."""
    connection = connection or database.connection
    server = Server("1", database.name, version)
    by_table = {TableName(database.name, "public", name): text for name, text in (filters or {}).items()}
    found = catalog.tables(connection, patterns)
    added = (publication or Publication("p")).ensure(connection, server, found, by_table)
    return [one.table.name for one in added]


def members(database: Database, name: str = "p") -> list[tuple]:
    return database.rows(
        f"SELECT schemaname, tablename, attnames::text[], rowfilter FROM pg_publication_tables WHERE pubname = $odd${name}$odd$ "
        "ORDER BY 1, 2"
    )


def refused(database: Database, *patterns: str, filters: Mapping[str, str] | None = None) -> str:
    """Why; nothing may be left behind."""
    before = (members(database), database.rows("SELECT * FROM pg_publication"))
    with pytest.raises(ChangelingError) as raised:
        ensure(database, *patterns, filters=filters)
    assert (members(database), database.rows("SELECT * FROM pg_publication")) == before
    assert not database.connection.info.transaction_status
    return str(raised.value)


def mend(database: Database, message: str) -> None:
    """Runs the statement of a message."""
    (statement,) = re.findall(r"run (ALTER (?:PUBLICATION|TABLE) .*?)(?:, then snapshot|; or choose|$)", message)
    database.execute(statement)
