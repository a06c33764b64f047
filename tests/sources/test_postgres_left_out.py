"""A table that cannot be captured as it is does not hold up the others: it is left out, and reported until it can be."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from changeling.cli import main
from changeling.model.errors import ChangelingError
from changeling.sources.postgres import PostgresSource
from changeling.sources.postgres_settings import CaptureSettings, Requests
from tests.postgres.roles import role
from tests.postgres.server import Database
from tests.sources.captures import assert_equal, capture, replica

USERS = ("CREATE TABLE users (id int PRIMARY KEY, name text)", "INSERT INTO users VALUES (1, 'Ann')")
PARTS = (
    "CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "ALTER TABLE parts REPLICA IDENTITY FULL",
    "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
    "INSERT INTO parts VALUES (1, 'one')",
)


def left_out(database: Database, folder: Path, **settings: object) -> tuple[list[str], list[str], dict[str, str]]:
    """The tables of the first plan, warnings, and the tables that are left out."""
    given = {"url": database.url, **settings}
    slot = f"slot_{database.name}"
    source = PostgresSource(
        CaptureSettings(name="pg", tables=("public.*",), slot=slot, publication=slot, **given),  # type: ignore[arg-type]
        Requests(folder / "requests"),
    )
    try:
        source.plan_next()
        assert source._snapshot is not None
        tables = sorted({part.table.name for part in source._snapshot.left})
        return tables, source.warnings(), source.left_out()
    finally:
        source.close()
        database.execute(
            f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{slot}'"
        )


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (PARTS, 'run ALTER TABLE "public"."parts_1" REPLICA IDENTITY FULL'),
        (("CREATE TABLE parts (a int)",), "parts has nothing that identifies its rows"),
        (
            (
                "CREATE TABLE parts (id int PRIMARY KEY, a int GENERATED ALWAYS AS (id + 1) VIRTUAL)",
                "ALTER TABLE parts REPLICA IDENTITY FULL",
            ),
            "parts has virtual generated columns",
        ),
    ],
)
def test_a_table_that_cannot_be_captured_is_left_out(
    tmp_path: Path, database: Database, statements: tuple[str, ...], why: str
) -> None:
    database.execute(*USERS, *statements)
    tables, warnings, reasons = left_out(database, tmp_path)
    assert tables == ["users"]
    assert list(reasons) == [f"{database.name}.public.parts"]
    assert why in reasons[f"{database.name}.public.parts"]
    assert warnings == [f"left out, while the other tables are captured: {reasons[f'{database.name}.public.parts']}"]
    assert database.rows("SELECT tablename FROM pg_publication_tables ORDER BY 1") == [("users",)]


def test_a_table_that_the_server_would_not_write_any_more_is_left_out(tmp_path: Path, database: Database) -> None:
    database.execute(*USERS, "CREATE TABLE parts (id int PRIMARY KEY, region text)")
    tables, _, reasons = left_out(database, tmp_path, filters=(("public.parts", "region = 'EU'"),))
    assert tables == ["users"]
    assert "the server would refuse updates and deletes" in reasons[f"{database.name}.public.parts"]


def test_a_table_that_the_user_may_not_read_or_publish_is_left_out(tmp_path: Path, database: Database) -> None:
    database.execute(*USERS)
    with role(database) as user:
        name = f"slot_{database.name}"
        database.execute(
            f"ALTER ROLE {user.name} REPLICATION",
            f"GRANT SELECT ON users TO {user.name}",
            f"CREATE PUBLICATION {name} FOR TABLE users WITH (publish_via_partition_root = true, publish_generated_columns = stored)",
            f"CREATE PUBLICATION {name}_inserts WITH (publish = 'insert, truncate', publish_via_partition_root = true, "
            "publish_generated_columns = stored)",
            "CREATE TABLE parts (id int PRIMARY KEY)",
        )
        tables, _, reasons = left_out(database, tmp_path, url=user.url)
    assert tables == ["users"]
    (why,) = reasons.values()
    assert f'GRANT SELECT ON "public"."parts" TO "{user.name}"' in why
    assert f'ALTER PUBLICATION "{name}" ADD TABLE ONLY "public"."parts"' in why


def test_the_others_go_on_and_it_is_taken_whole_once_it_can_be(
    spark: SparkSession, tmp_path: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    database.execute(*USERS, *PARTS)
    made = capture(tmp_path, database)
    name = f"{database.name}.public.parts"
    assert main(["run", "--once", str(made.file)]) == 3
    assert "left out" in capsys.readouterr().err
    assert_equal(made, database, "users")
    assert main(["status", "--json", "--pipeline", str(made.file)]) == 0
    (row,) = [row for row in map(json.loads, capsys.readouterr().out.splitlines()) if row["kind"] == "source"]
    assert list(row["left_out"]) == [name]
    assert 'ALTER TABLE "public"."parts_1" REPLICA IDENTITY FULL' in row["left_out"][name]
    assert main(["status", "--pipeline", str(made.file)]) == 0
    assert f"left out: {name}: " in capsys.readouterr().out
    database.execute("ALTER TABLE parts_1 REPLICA IDENTITY FULL", "UPDATE parts SET v = 'uno'")
    assert main(["run", "--once", str(made.file)]) == 0
    assert_equal(made, database, "users", "parts")
    # Left out again: nothing of it is stored, and then all of it.
    database.execute(
        "ALTER TABLE parts_1 REPLICA IDENTITY DEFAULT",
        "UPDATE parts SET v = 'due'",
        "INSERT INTO users VALUES (2, 'Bob')",
    )
    assert main(["run", "--once", str(made.file)]) == 3
    assert_equal(made, database, "users")
    assert replica(made, "parts") == [{"id": 1, "v": "uno"}]
    database.execute("ALTER TABLE parts_1 REPLICA IDENTITY FULL")
    assert main(["run", "--once", str(made.file)]) == 0
    assert_equal(made, database, "users", "parts")
    capsys.readouterr()
    assert main(["status", "--json", "--pipeline", str(made.file)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["left_out"] == {}


def test_where_no_table_is_left_the_run_is_refused(tmp_path: Path, database: Database) -> None:
    database.execute(*PARTS)
    with pytest.raises(ChangelingError, match=r'cannot be captured as it is.*\n.*"parts_1" REPLICA IDENTITY FULL'):
        left_out(database, tmp_path)
