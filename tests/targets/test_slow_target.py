"""A target that is slow holds up what follows the log, and no source."""

import threading
from pathlib import Path

from pyspark.sql import SparkSession

from changeling.log import log_tables
from demo.embedded_postgres import EmbeddedPostgres
from tests.postgres.server import Database
from tests.sources.captures import capture, replica
from tests.sources.test_operating_postgres import wait_for
from tests.targets.postgres_targets import there

CONFIRMED = "SELECT confirmed_flush_lsn > '{}' FROM pg_replication_slots WHERE slot_name = '{}'"
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'users'::regclass"


def test_a_slot_moves_on_while_a_target_waits_for_a_lock(
    spark: SparkSession, tmp_path: Path, database: Database, server: EmbeddedPostgres
) -> None:
    mirror = Database(server)
    database.execute("CREATE TABLE users (id int PRIMARY KEY, name text)", "INSERT INTO users VALUES (1, 'Ann')")
    target = {"name": "mirror", "type": "postgres", "url": mirror.url, "tables": ["public.*"]}
    made = capture(tmp_path, database, targets=[target])
    stop = threading.Event()
    run = threading.Thread(target=made.pipeline.run, kwargs={"stop": stop})
    run.start()
    try:
        wait_for(lambda: mirror.rows("SELECT to_regclass('users')") != [(None,)])
        wait_for(lambda: there(mirror, "users") == [{"id": 1, "name": "Ann"}])
        with mirror.connection.transaction():
            mirror.execute("LOCK TABLE users IN ACCESS EXCLUSIVE MODE")
            database.execute("INSERT INTO users VALUES (2, 'Bob')")
            wait_for(lambda: mirror.rows(WAITING) == [(1,)])
            ((before,),) = database.rows("SELECT pg_current_wal_insert_lsn()")
            database.execute("INSERT INTO users VALUES (3, 'Cy')")
            confirmed = CONFIRMED.format(before, f"slot_{database.name}")
            wait_for(lambda: database.rows(confirmed) == [(True,)])
            assert mirror.rows(WAITING) == [(1,)]
            assert [row["key"] for row in made.rows(log_tables.CHANGES)].count('{"id":3}') == 1
            # What was begun is completed: the run ends with the target, and not before.
            stop.set()
            run.join(0.5)
            assert run.is_alive()
    finally:
        stop.set()
        run.join()
        rows = there(mirror, "users")
        mirror.drop()
    assert (
        rows
        == replica(made, "users")
        == [{"id": number, "name": name} for number, name in ((1, "Ann"), (2, "Bob"), (3, "Cy"))]
    )
