from collections.abc import Callable

import psycopg
import pytest

from changeling.model.errors import ChangelingError, UsageError
from changeling.postgres.connection import connect, connect_for_replication
from tests.postgres.roles import role
from tests.postgres.server import Database


def test_values_are_read_under_the_same_settings_whatever_the_server_has(database: Database) -> None:
    database.execute(f"ALTER DATABASE {database.name} SET timezone = 'Asia/Tokyo'")
    with connect(database.url) as connection:
        found = connection.execute("SELECT '2024-01-01 00:00+09'::timestamptz::text, '\\x00ff'::bytea::text").fetchall()
    assert found == [("2023-12-31 15:00:00+00", "\\x00ff")]


def test_no_patience_of_the_server_ends_a_capture(database: Database) -> None:
    names = [
        "statement_timeout",
        "lock_timeout",
        "transaction_timeout",
        "idle_session_timeout",
        "idle_in_transaction_session_timeout",
    ]
    for name in names:
        database.execute(f"ALTER DATABASE {database.name} SET {name} = '1h'")
    with connect(database.url) as connection:
        settings = {name: connection.execute(f"SHOW {name}").fetchone() for name in names}
    assert settings == dict.fromkeys(names, ("0",)) | {"lock_timeout": ("30s",)}


def test_settings_may_be_given_and_those_that_the_server_does_not_know_are_left(database: Database) -> None:
    with connect(database.url, settings={"search_path": "pg_catalog", "of_some_later_version": "1"}) as connection:
        settings = connection.execute("SELECT current_setting('search_path'), current_setting('timezone')").fetchall()
    assert settings == [("pg_catalog", "UTC")]


def test_rows_that_a_policy_hides_are_refused_instead_of_left_out(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id int)",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY none ON t USING (false)",
        "GRANT SELECT ON t TO PUBLIC",
    )
    with role(database) as user, pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        user.connection.execute("SELECT * FROM t")


def test_a_replication_connection_takes_its_commands(database: Database) -> None:
    connection = connect_for_replication(database.url)
    result = connection.exec_(b"IDENTIFY_SYSTEM")
    assert (result.get_value(0, 3) or b"").decode() == database.name
    connection.finish()


@pytest.mark.parametrize("make", [connect, connect_for_replication])
def test_a_server_that_is_not_there_is_named_without_the_password(make: Callable) -> None:
    with pytest.raises(ChangelingError, match=r"PostgreSQL at 127\.0\.0\.1:1/shop: .*refused") as raised:
        make("postgresql://anne:hunter2@127.0.0.1:1/shop")
    assert "hunter2" not in str(raised.value)


def test_a_url_that_is_none_is_a_wrong_call() -> None:
    with pytest.raises(UsageError, match="postgresql://user:password@host:5432/database"):
        connect("postgresql://[oops")
