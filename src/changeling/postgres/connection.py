"""Connections to a PostgreSQL server, with the settings that every value is read under."""

import re
from collections.abc import Mapping

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq.abc import PGconn

from changeling.model.errors import ChangelingError, UsageError

_READING = {
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    # A capture that waits is not idle, and one that reads much is not stuck.
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    # Somebody may keep a table locked: the views of publications wait for that as well.
    "lock_timeout": "30s",
    "transaction_timeout": "0",
    "idle_session_timeout": "0",
    # Fail on rows that a policy hides instead of omitting them.
    "row_security": "off",
}
# Older servers do not know all of them.
_SET = """
SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS wanted(name, value)
WHERE current_setting(name, true) IS NOT NULL
"""
_ENDS_A_WAIT = ("idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout")
"""The session that exports a snapshot stays in a transaction."""
_PATIENCE = {"connect_timeout": "10", "keepalives_idle": "15", "keepalives_interval": "5", "keepalives_count": "3"}
_NAME = "changeling"
_BOILERPLATE = re.compile(
    r'^(connection failed: )?connection to server at "[^"]*"( \([^)]*\))?, port \d+ failed: (FATAL: )?(?!.*connection to server)'
)
"""What libpq repeats of the address, unless it tried several."""


def connect(url: str, *, settings: Mapping[str, str] | None = None) -> "psycopg.Connection[tuple[object, ...]]":
    """A connection in autocommit mode; `url` and the environment may have everything that libpq understands.

    Raises `ChangelingError` where it cannot be opened, without the password.
    """
    try:
        connection = psycopg.connect(_conninfo(url), autocommit=True)
        wanted = {**_READING, **(settings or {})}
        connection.execute(_SET, (list(wanted), list(wanted.values())))
    except psycopg.Error as error:
        raise unreachable(url, error) from None
    return connection


def connect_for_replication(url: str) -> PGconn:
    """A connection that takes commands of the replication protocol, such as CREATE_REPLICATION_SLOT."""
    connection = pq.PGconn.connect(make_conninfo(_conninfo(url), replication="database").encode())
    if connection.status != pq.ConnStatus.OK:
        text = connection.error_message.decode(errors="replace").strip()
        connection.finish()
        raise unreachable(url, psycopg.OperationalError(text))
    for name in _ENDS_A_WAIT:
        connection.exec_(f"SET {name} = 0".encode())
    return connection


def where(url: str) -> str:
    """The server and the database of a url, for messages: never the password."""
    known = conninfo_to_dict(url)
    host, port, name = known.get("host") or "localhost", known.get("port") or 5432, known.get("dbname") or ""
    return f"{host}:{port}/{name}"


def unreachable(url: str, error: psycopg.Error) -> ChangelingError:
    """The error for a server that cannot be reached or reports an error."""
    message = _BOILERPLATE.sub("", " ".join(str(error).split()))
    # Of a connection that is refused, libpq gives a text, and no SQLSTATE.
    if message.startswith("password authentication failed"):
        message += ": correct the password of the url, or the variable that it comes from"
    password = conninfo_to_dict(url).get("password")
    if password:
        message = message.replace(str(password), "***")
    if isinstance(error, psycopg.errors.LockNotAvailable):
        message += "; a transaction that alters, truncates or locks a table is open: wait for its end, or end it (pg_locks shows it)"
    return ChangelingError(f"PostgreSQL at {where(url)}: {message}")


def _conninfo(url: str) -> str:
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise UsageError(
            "the url is not one that PostgreSQL accepts: write postgresql://user:password@host:5432/database"
        ) from None
    return make_conninfo("", **{"application_name": _NAME, **_PATIENCE, **given})
