"""A PostgreSQL server for tests, and a database of its own for each of them."""

from collections.abc import Iterator
from itertools import count
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from changeling.postgres.connection import connect
from demo.embedded_postgres import EmbeddedPostgres

_numbers = count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    started = EmbeddedPostgres(tmp_path_factory.mktemp("postgres") / "data").start()
    yield started
    started.remove()


class Database:
    """A database of a test, with a connection to it that commits each statement."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self.server = server
        self.name = f"test_{next(_numbers)}"
        with connect(server.url) as admin:
            admin.execute(f'CREATE DATABASE "{self.name}"')
        self.url = urlunsplit(urlsplit(server.url)._replace(path=f"/{self.name}"))
        self.connection: psycopg.Connection = connect(self.url)

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)

    def rows(self, query: str) -> list[tuple]:
        return self.connection.execute(query).fetchall()

    def drop(self) -> None:
        self.connection.close()
        with connect(self.server.url) as admin:
            for (slot,) in admin.execute(
                "SELECT slot_name FROM pg_replication_slots WHERE database = %s AND NOT active", (self.name,)
            ).fetchall():
                admin.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
            admin.execute(f'DROP DATABASE "{self.name}" WITH (FORCE)')


@pytest.fixture
def database(server: EmbeddedPostgres) -> Iterator[Database]:
    made = Database(server)
    yield made
    made.drop()
