"""Older servers: what is captured from them, and what they do to a slot."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from changeling.model.errors import ChangelingError
from changeling.postgres.connection import connect
from demo.embedded_postgres import EmbeddedPostgres
from tests.brokers.certificate import Certificate, certificate
from tests.log.lakes import Shop
from tests.postgres.older_versions import IN_SOAK, OLDEST_AT_ONCE
from tests.postgres.server import Database, started
from tests.sources.captures import assert_equal, capture, replica, source
from tests.sources.workloads import TABLES, write_at_once

CAPTURED = ("keyed", "bag", "parts")
"""One with a key, one with whole rows, one of partitions."""
_TLS_ALONE = "hostssl all all 127.0.0.1/32 trust\n"


@pytest.fixture(scope="module")
def older(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    with started(version=request.param) as made:
        yield made


@pytest.fixture
def database(older: EmbeddedPostgres) -> Iterator[Database]:
    made = Database(older)
    yield made
    made.drop()


def lag(made: Shop) -> int:
    (found,) = (row["slot_lag_bytes"] for row in made.pipeline.status() if row["name"] == "pg")
    assert isinstance(found, int)
    return found


def secured(server: EmbeddedPostgres, folder: Path) -> Certificate:
    """From now on the server takes nobody without TLS."""
    made, owner = certificate(folder), server.folder.stat()
    with connect(server.url) as admin:
        for name, content in {"server.crt": made.trusted.read_bytes(), "server.key": made.private_key()}.items():
            file = server.folder / name
            file.write_bytes(content)
            file.chmod(0o600)
            os.chown(file, owner.st_uid, owner.st_gid)
        (server.folder / "pg_hba.conf").write_text(_TLS_ALONE)
        admin.execute("ALTER SYSTEM SET ssl = on")
    server.restart()
    return made


@pytest.mark.parametrize("older", OLDEST_AT_ONCE, indirect=True)
def test_a_capture_is_equal_and_leaves_nothing(spark: SparkSession, tmp_path: Path, database: Database) -> None:
    version = database.connection.info.server_version
    database.execute(*TABLES, "CREATE TABLE sums (a int PRIMARY KEY, b int GENERATED ALWAYS AS (a * 2) STORED)")
    database.execute("INSERT INTO sums VALUES (1)")
    for thread in write_at_once(database.url, version, writers=1, transactions=40):
        thread.join()
    made = capture(tmp_path, database, source={"tables": [f"public.{name}" for name in (*CAPTURED, "sums")]})
    made.pipeline.run(once=True)
    assert_equal(made, database, *CAPTURED)
    for thread in write_at_once(database.url, version + 1, writers=2, transactions=40):
        thread.join()
    database.execute("ALTER TABLE keyed ADD COLUMN extra int DEFAULT 7", "INSERT INTO sums VALUES (2)")
    made.pipeline.run(once=True)
    assert_equal(made, database, *CAPTURED)
    # Servers before 18 cannot publish what they generate.
    assert replica(made, "sums") == [{"a": 1}, {"a": 2}]
    made.pipeline.remove()
    assert database.rows("SELECT slot_name FROM pg_replication_slots") == []
    assert database.rows("SELECT pubname FROM pg_publication") == []


@pytest.mark.parametrize("older", IN_SOAK, indirect=True)
def test_a_slot_that_the_server_gave_up_is_refused_and_snapshotted_again(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute("CREATE TABLE users (id int PRIMARY KEY)", "INSERT INTO users VALUES (1)")
    made = capture(tmp_path, database)
    made.pipeline.run(once=True)
    database.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
    for number in range(2, 8):
        database.execute(f"INSERT INTO users VALUES ({number})", "SELECT pg_switch_wal()", "CHECKPOINT")
    database.execute("DELETE FROM users WHERE id = 1")
    with pytest.raises(ChangelingError, match=r"the server invalidated the slot \S+ \(wal_removed\).*--resnapshot"):
        made.pipeline.run(once=True)
    made.pipeline.run(once=True, resnapshot=True)
    assert_equal(made, database, "users")
    database.execute("INSERT INTO users VALUES (100)")
    made.pipeline.run(once=True)
    assert_equal(made, database, "users")
    made.pipeline.remove()
    database.execute("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")


@pytest.mark.parametrize("older", IN_SOAK, indirect=True)
def test_an_idle_table_next_to_a_busy_one_holds_nothing_of_the_log(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.execute("CREATE TABLE idle (id int PRIMARY KEY)", "CREATE TABLE busy (id int PRIMARY KEY, filler text)")
    database.execute("INSERT INTO idle VALUES (1)")
    made = capture(tmp_path, database, source={"tables": ["public.idle"]})
    made.pipeline.run(once=True)
    for number in range(3):
        database.execute(
            f"INSERT INTO busy SELECT id, repeat('x', 1000) FROM generate_series({number}00000, {number}00000 + 40000) AS ids (id)",
            "CHECKPOINT",
        )
        assert lag(made) > 30_000_000
        made.pipeline.run(once=True)
        # The server itself continues only to where the oldest transaction was that it still knows of.
        database.execute("CHECKPOINT", f"INSERT INTO busy VALUES (-{number + 1}, '')")
        made.pipeline.run(once=True)
        assert lag(made) < 30_000_000
    database.execute("INSERT INTO idle VALUES (2)")
    made.pipeline.run(once=True)
    assert_equal(made, database, "idle")
    made.pipeline.remove()


@pytest.mark.parametrize("version", IN_SOAK)
def test_a_capture_by_tls_trusts_one_certificate_alone(version: str, spark: SparkSession, tmp_path: Path) -> None:
    with started(version=version) as server:
        (tmp_path / "shown").mkdir()
        (tmp_path / "other").mkdir()
        shown, other = secured(server, tmp_path / "shown"), certificate(tmp_path / "other")
        database = Database(server)
        database.execute("CREATE TABLE users (id int PRIMARY KEY)", "INSERT INTO users VALUES (1)")
        trusting = f"{database.url}?sslmode=verify-full&sslrootcert="
        wary = capture(tmp_path / "wary", database, source={"url": f"{trusting}{other.trusted}"})
        with pytest.raises(ChangelingError, match="certificate verify failed"):
            wary.pipeline.run(once=True)
        plain = capture(tmp_path / "plain", database, source={"url": f"{database.url}?sslmode=disable"})
        with pytest.raises(ChangelingError, match=r"no pg_hba\.conf entry"):
            plain.pipeline.run(once=True)
        made = capture(tmp_path / "made", database, source={"url": f"{trusting}{shown.trusted}"})
        made.pipeline.run(once=True)
        database.execute("INSERT INTO users VALUES (2)")
        made.pipeline.run(once=True)
        assert_equal(made, database, "users")
        assert len(source(database, "users")) == 2
        made.pipeline.remove()
        database.drop()
