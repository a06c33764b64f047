"""Servers and tables that cannot be captured as they are: what is reported, and that the statements fix it."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from changeling.model.errors import ChangelingError
from changeling.model.table import TableName
from changeling.postgres import catalog, readiness
from changeling.postgres.catalog import Connection
from changeling.postgres.connection import connect
from changeling.postgres.publication import Publication
from changeling.postgres.readiness import Need, Server, WithoutIdentity
from changeling.postgres.relation import Relation
from changeling.postgres.slot import Slot
from demo.embedded_postgres import EmbeddedPostgres
from tests.postgres.roles import role
from tests.postgres.server import Database, started


@pytest.fixture
def database(emptied: Database) -> Database:
    return emptied


def needs(*given: Any) -> list[Need]:
    """Each says in its sentence what its statements are."""
    found = readiness.needs(*given)
    assert all(statement in need.what for need in found for statement in need.statements)
    return found


def check(
    database: Database, connection: Connection | None = None, without_identity: WithoutIdentity = "refuse"
) -> list[str]:
    """What is reported for all tables."""
    connection = connection or database.connection
    found = catalog.tables(connection, ["*.*"])
    relations = catalog.relations(connection, found, stored_generated=True)
    return [need.what for need in needs(connection, found, relations, without_identity)]


def mend(database: Database, reported: str) -> None:
    for statement in re.findall(r"(?:GRANT|ALTER) .*?(?=;|, and| \(or|$)", reported):
        database.execute(statement)


def publish(database: Database) -> None:
    """As a capture does."""
    found = catalog.tables(database.connection, ["*.*"])
    Publication("p").ensure(database.connection, readiness.server(database.connection), found, {})


def test_a_server_is_known_by_what_it_was_made_with(database: Database, server: EmbeddedPostgres) -> None:
    reported = readiness.server(database.connection)
    ((system,),) = database.rows("SELECT system_identifier::text FROM pg_control_system()")
    assert reported == Server(system, database.name, database.connection.info.server_version)
    assert reported.publishes_generated
    with connect(server.url) as other:
        assert readiness.server(other) == Server(system, "postgres", reported.version)


@pytest.mark.parametrize(
    ("version", "publishes"), [(140_000, False), (170_005, False), (180_000, True), (190_000, True)]
)
def test_generated_columns_are_published_from_18_on(version: int, publishes: bool) -> None:
    assert Server("1", "shop", version).publishes_generated is publishes


def test_a_server_that_is_too_old_is_refused() -> None:
    class Old:
        server_version = 130_021

    class Connection:
        info = Old()

    with pytest.raises(ChangelingError, match="PostgreSQL 13 is too old: 14 and later can be captured"):
        readiness.server(Connection())  # type: ignore[arg-type]


@pytest.fixture
def unprepared() -> Iterator[EmbeddedPostgres]:
    with started("wal_level = replica\n") as made:
        yield made


@pytest.mark.services
def test_a_server_that_does_not_log_enough_or_is_a_standby_is_reported_so(unprepared: EmbeddedPostgres) -> None:
    with connect(unprepared.url) as connection:
        (need,) = readiness.server_needs(connection)
        assert need == Need(
            "wal_level is replica, and must be logical: run ALTER SYSTEM SET wal_level = 'logical', then restart the server",
            ("ALTER SYSTEM SET wal_level = 'logical'",),
        )
        connection.execute(need.statements[0])
    unprepared.restart()
    with connect(unprepared.url) as connection:
        assert readiness.server_needs(connection) == []
        assert readiness.server(connection).database == "postgres"
    unprepared.stop()
    (unprepared.folder / "standby.signal").touch()
    unprepared.start()
    with (
        connect(unprepared.url) as connection,
        pytest.raises(ChangelingError, match=r"is a standby.* url of its primary"),
    ):
        readiness.server(connection)


def test_a_user_who_may_not_replicate_learns_what_to_run_and_it_helps(database: Database) -> None:
    with role(database) as user:
        statement = f'ALTER ROLE "{user.name}" REPLICATION'
        assert readiness.server_needs(user.connection) == [
            Need(f"the user lacks the right to replicate: run {statement}", (statement,))
        ]
        database.execute(statement)
        assert readiness.server_needs(user.connection) == []
        assert readiness.server(user.connection) == readiness.server(database.connection)
        point = Slot(user.url, f"slot_{user.name}").create(temporary=True)
        assert point.alive
        point.close()


@pytest.mark.parametrize("group", ["rds_replication", "cloudsqlsuperuser"])
def test_the_roles_that_clouds_give_instead_are_enough(database: Database, group: str) -> None:
    with role(database) as user:
        database.execute(f"CREATE ROLE {group}", f"GRANT {group} TO {user.name}")
        try:
            assert readiness.server_needs(user.connection) == []
        finally:
            database.execute(f"DROP ROLE {group}")


def test_tables_that_can_be_captured_are_not_reported(database: Database) -> None:
    database.execute(
        "CREATE TABLE a (id int PRIMARY KEY)",
        "CREATE TABLE b (id int)",
        "ALTER TABLE b REPLICA IDENTITY FULL",
        "CREATE TABLE c (id int NOT NULL UNIQUE)",
        "ALTER TABLE c REPLICA IDENTITY USING INDEX c_id_key",
        "CREATE TABLE d (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE d_1 PARTITION OF d FOR VALUES FROM (0) TO (9)",
        "CREATE TABLE e (id int PRIMARY KEY, v int GENERATED ALWAYS AS (id) VIRTUAL)",
    )
    assert check(database) == []
    publish(database)
    database.execute(
        *(f"INSERT INTO {name} VALUES (1)" for name in "abcde"), *(f"UPDATE {name} SET id = 2" for name in "abcde")
    )


def test_no_tables_are_no_problem(database: Database) -> None:
    assert check(database) == []


@pytest.mark.parametrize(
    ("statements", "alter"),
    [
        (['CREATE TABLE "a b" (id int)'], 'ALTER TABLE "public"."a b" REPLICA IDENTITY FULL'),
        (
            ['CREATE TABLE "a b" (id int PRIMARY KEY)', 'ALTER TABLE "a b" REPLICA IDENTITY NOTHING'],
            'ALTER TABLE "public"."a b" REPLICA IDENTITY FULL',
        ),
        (['CREATE TABLE "a b" (id int PRIMARY KEY DEFERRABLE)'], 'ALTER TABLE "public"."a b" REPLICA IDENTITY FULL'),
        (
            [
                'CREATE TABLE "a b" (id int NOT NULL CONSTRAINT u UNIQUE)',
                'ALTER TABLE "a b" REPLICA IDENTITY USING INDEX u',
                'ALTER TABLE "a b" DROP CONSTRAINT u',
            ],
            'ALTER TABLE "public"."a b" REPLICA IDENTITY FULL',
        ),
        (
            [
                'CREATE TABLE "a b" (id int) PARTITION BY RANGE (id)',
                'CREATE TABLE one PARTITION OF "a b" FOR VALUES FROM (0) TO (9)',
                'CREATE TABLE two PARTITION OF "a b" FOR VALUES FROM (9) TO (20)',
                "ALTER TABLE two REPLICA IDENTITY FULL",
            ],
            'ALTER TABLE "public"."a b" REPLICA IDENTITY FULL; ALTER TABLE "public"."one" REPLICA IDENTITY FULL',
        ),
    ],
    ids=["none", "nothing", "deferrable", "dropped index", "partitions"],
)
def test_a_table_without_identity_is_reported_and_what_is_reported_fixes_it(
    database: Database, statements: list[str], alter: str
) -> None:
    database.execute(*statements)
    reported = check(database)
    assert reported == [
        "public.a b has nothing that identifies its rows, so that the server would refuse its updates and deletes once they are "
        f"captured: add a primary key, or run {alter} (or set without_identity: inserts, to capture inserts alone)"
    ]
    assert check(database, without_identity="inserts") == []
    mend(database, reported[0])
    assert check(database) == []
    publish(database)
    database.execute('INSERT INTO "a b" VALUES (1)', 'UPDATE "a b" SET id = 2', 'DELETE FROM "a b"')


def test_partitions_that_identify_less_than_their_table_are_reported(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (9)",
        "CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (9) TO (20)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "ALTER TABLE t_1 REPLICA IDENTITY FULL",
    )
    reported = [
        'public.t has partitions whose replica identity does not identify their rows: run ALTER TABLE "public"."t_2" REPLICA IDENTITY FULL'
    ]
    assert check(database) == reported
    assert check(database, without_identity="inserts") == reported
    mend(database, reported[0])
    assert check(database) == []


def test_what_the_server_computes_for_readers_does_not_go_with_whole_rows(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int GENERATED ALWAYS AS (id) VIRTUAL)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
    )
    reported = [
        "public.t has virtual generated columns, so that the server would refuse its updates and deletes once they are captured: "
        'run ALTER TABLE "public"."t" REPLICA IDENTITY DEFAULT, and give it a primary key'
    ]
    assert check(database) == reported
    assert check(database, without_identity="inserts") == reported
    with pytest.raises(ChangelingError, match="would refuse updates and deletes"):
        publish(database)
    mend(database, reported[0])
    assert check(database) == []
    publish(database)
    database.execute("INSERT INTO t VALUES (1)", "UPDATE t SET id = 2")


def test_whole_rows_are_not_proposed_where_they_would_be_refused(database: Database) -> None:
    database.execute("CREATE TABLE t (id int, v int GENERATED ALWAYS AS (id) VIRTUAL)")
    (reported,) = check(database)
    assert reported.endswith("captured: add a primary key (or set without_identity: inserts, to capture inserts alone)")


@pytest.mark.parametrize(
    ("statements", "grants"),
    [
        (['CREATE TABLE "T" (id int PRIMARY KEY)'], ['GRANT SELECT ON "public"."T" TO {}']),
        (
            ["CREATE SCHEMA s", 'CREATE TABLE s."T" (id int PRIMARY KEY)'],
            ['GRANT USAGE ON SCHEMA "s" TO {}', 'GRANT SELECT ON "s"."T" TO {}'],
        ),
        (
            ["CREATE SCHEMA s", 'CREATE TABLE s."T" (id int PRIMARY KEY)', 'GRANT SELECT ON s."T" TO PUBLIC'],
            ['GRANT USAGE ON SCHEMA "s" TO {}'],
        ),
        (
            [
                'CREATE TABLE "T" (id int PRIMARY KEY) PARTITION BY RANGE (id)',
                'CREATE TABLE t_1 PARTITION OF "T" FOR VALUES FROM (0) TO (9)',
                'GRANT SELECT ON "T" TO PUBLIC',
            ],
            ['GRANT SELECT ON "public"."t_1" TO {}'],
        ),
        (
            ['CREATE TABLE "T" (id int PRIMARY KEY)', 'ALTER TABLE "T" ENABLE ROW LEVEL SECURITY'],
            ['GRANT SELECT ON "public"."T" TO {}', "ALTER ROLE {} BYPASSRLS"],
        ),
        (
            [
                'CREATE TABLE "T" (id int PRIMARY KEY)',
                'ALTER TABLE "T" ENABLE ROW LEVEL SECURITY',
                'CREATE POLICY odd ON "T" USING (id % 2 = 1)',
                'GRANT SELECT ON "T" TO PUBLIC',
            ],
            ["ALTER ROLE {} BYPASSRLS"],
        ),
    ],
    ids=["table", "schema and table", "schema", "partition", "nothing and policies", "policies"],
)
def test_a_table_that_may_not_be_read_is_reported_and_what_is_reported_fixes_it(
    database: Database, statements: list[str], grants: list[str]
) -> None:
    database.execute(*statements)
    (one,) = catalog.tables(database.connection, ["*.*"])
    with role(database, "REPLICATION") as user:
        reported = check(database, user.connection)
        wanted = "; ".join(grant.format(f'"{user.name}"') for grant in grants)
        assert reported == [f"{one.table.schema}.T cannot be read: {wanted}"]
        mend(database, reported[0])
        assert check(database, user.connection) == []
        for leaf in catalog.leaves(user.connection, one.oid):
            user.connection.execute(f'SELECT * FROM "{leaf.schema}"."{leaf.name}"')


def test_all_problems_of_all_tables_are_reported_at_once(database: Database) -> None:
    database.execute(
        "CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int)", "CREATE SCHEMA s", "CREATE TABLE s.c (id int)"
    )
    with role(database) as user:
        reported = [problem.partition(":")[0] for problem in check(database, user.connection)]
    none = "has nothing that identifies its rows, so that the server would refuse its updates and deletes once they are captured"
    assert reported == [
        "public.a cannot be read",
        "public.b cannot be read",
        f"public.b {none}",
        "s.c cannot be read",
        f"s.c {none}",
    ]


@pytest.mark.parametrize(
    ("identity", "key", "expected"),
    [
        ("default", ("id",), True),
        ("default", (), False),
        ("index", ("id",), True),
        ("index", (), False),
        ("full", (), True),
        ("full", ("id",), True),
        ("nothing", ("id",), False),
        ("nothing", (), False),
    ],
)
def test_rows_are_identified_by_a_key_that_changes_carry_or_by_all_columns(
    identity: str, key: tuple[str, ...], expected: bool
) -> None:
    relation = Relation(1, TableName("shop", "public", "t"), (), key, identity)  # type: ignore[arg-type]
    assert readiness.identified(relation) is expected
