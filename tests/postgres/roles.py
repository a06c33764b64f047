"""Users of a database that may not do everything."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg

from changeling.postgres.connection import connect
from tests.postgres.server import Database


class Role:
    """A user who may log in, and a connection of theirs."""

    def __init__(self, database: Database, name: str) -> None:
        self.name = name
        parts = urlsplit(database.url)
        self.url = urlunsplit(parts._replace(netloc=f"{name}@{parts.hostname}:{parts.port}"))
        self.connection: psycopg.Connection = connect(self.url)


@contextmanager
def role(database: Database, *attributes: str) -> Iterator[Role]:
    name = f"role_{database.name}"
    database.execute(f"CREATE ROLE {name} LOGIN {' '.join(attributes)}")
    made = Role(database, name)
    try:
        yield made
    finally:
        made.connection.close()
        database.execute(f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")
