"""Publications on a real server: made, added to, reused, refused."""

import re

import psycopg
import pytest

from changeling.model.errors import ChangelingError
from changeling.postgres import catalog
from changeling.postgres.publication import Publication
from changeling.postgres.readiness import Server
from tests.postgres.publications import SETTINGS, ensure, members, mend, refused
from tests.postgres.roles import role
from tests.postgres.server import Database


@pytest.fixture
def database(emptied: Database) -> Database:
    return emptied


def test_a_publication_is_made_with_what_is_needed(database: Database) -> None:
    database.execute(
        "CREATE TABLE a (id int PRIMARY KEY, d int GENERATED ALWAYS AS (id * 2) STORED, v int GENERATED ALWAYS AS (id) VIRTUAL)",
        "CREATE TABLE b (id int PRIMARY KEY)",
    )
    assert ensure(database, "a") == ["a"]
    assert database.rows(SETTINGS) == [(False, True, True, True, True, True, "s")]
    assert members(database) == [("public", "a", ["id", "d"], None)]


def test_a_server_that_cannot_publish_generated_columns_is_not_asked_to(database: Database) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY, d int GENERATED ALWAYS AS (id * 2) STORED)")
    assert ensure(database, "*", version=170_000) == ["a"]
    assert members(database) == [("public", "a", ["id"], None)]
    assert ensure(database, "*", version=170_000) == []


def test_tables_that_come_later_are_added_and_those_that_are_there_are_left(database: Database) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)")
    assert ensure(database, "*") == ["a"]
    database.execute("CREATE TABLE b (id int PRIMARY KEY)", "CREATE TABLE c (id int PRIMARY KEY)")
    assert ensure(database, "*") == ["b", "c"]
    assert ensure(database, "*") == []
    assert [row[1] for row in members(database)] == ["a", "b", "c"]


def test_a_table_that_is_dropped_and_made_again_is_added_again(database: Database) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)")
    ensure(database, "*")
    database.execute("DROP TABLE a", "CREATE TABLE a (id int PRIMARY KEY, x int)")
    assert members(database) == []
    assert ensure(database, "*") == ["a"]
    assert members(database) == [("public", "a", ["id", "x"], None)]


def test_a_table_that_was_taken_out_is_added_again(database: Database) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)")
    ensure(database, "*")
    database.execute("ALTER PUBLICATION p DROP TABLE a")
    assert ensure(database, "*") == ["a"]


def test_a_table_of_the_same_name_in_another_schema_is_another(database: Database) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE SCHEMA s", "CREATE TABLE s.a (id int PRIMARY KEY)")
    assert ensure(database, "public.a") == ["a"]
    assert ensure(database, "*.a") == ["a"]
    assert [row[:2] for row in members(database)] == [("public", "a"), ("s", "a")]


def test_a_publication_may_be_without_tables(database: Database) -> None:
    assert ensure(database, "*") == []
    assert database.rows(SETTINGS) == [(False, True, True, True, True, True, "s")]
    assert ensure(database, "*") == []
    database.execute("CREATE TABLE a (id int PRIMARY KEY)")
    assert ensure(database, "*") == ["a"]


def test_odd_names_are_quoted(database: Database) -> None:
    name = 'The "p", 100%'
    database.execute('CREATE SCHEMA "s.x"', 'CREATE TABLE "s.x"."he said ""no"" {} %s" ("A b" int PRIMARY KEY)')
    publication = Publication(name)
    assert not publication.exists(database.connection)
    assert ensure(database, '"s.x".*', publication=publication) == ['he said "no" {} %s']
    assert publication.exists(database.connection)
    assert publication.members(database.connection) == {("s.x", 'he said "no" {} %s')}
    publication.drop(database.connection)
    publication.drop(database.connection)
    assert not publication.exists(database.connection)


def test_one_for_inserts_leaves_updates_of_rows_without_identity_alone(database: Database) -> None:
    database.execute("CREATE TABLE bag (a int)", "INSERT INTO bag VALUES (1)")
    assert ensure(database, "*", publication=Publication("p", inserts_only=True)) == ["bag"]
    assert database.rows(SETTINGS) == [(False, True, False, False, True, True, "s")]
    database.execute("UPDATE bag SET a = 2", "DELETE FROM bag")
    assert ensure(database, "*", publication=Publication("p", inserts_only=True)) == []


def test_tables_that_inherit_are_not_published_with_their_parents(database: Database) -> None:
    database.execute(
        "CREATE TABLE parent (id int PRIMARY KEY)", "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)"
    )
    assert ensure(database, "parent") == ["parent"]
    assert [row[1] for row in members(database)] == ["parent"]
    assert ensure(database, "*") == ["child"]


def test_a_partitioned_table_is_published_as_one_with_or_without_partitions(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    assert ensure(database, "*") == ["t"]
    assert members(database) == [("public", "t", ["id"], None)]
    database.execute(
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (9) PARTITION BY RANGE (id)",
        "CREATE TABLE t_2 PARTITION OF t_1 FOR VALUES FROM (0) TO (9)",
    )
    assert ensure(database, "*") == []
    assert members(database) == [("public", "t", ["id"], None)]


def test_who_does_not_own_the_tables_gets_the_statement_and_it_helps(database: Database) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    with role(database, "REPLICATION") as user:
        database.execute("GRANT SELECT ON a, b TO PUBLIC")
        with pytest.raises(ChangelingError) as raised:
            ensure(database, "a", connection=user.connection)
        statement = (
            'CREATE PUBLICATION "p" FOR TABLE ONLY "public"."a" WITH (publish_via_partition_root = true, '
            "publish_generated_columns = stored)"
        )
        assert str(raised.value) == (
            f"the user lacks the right to publish these tables (permission denied for database {database.name}); let their owner run: "
            f"{statement}"
        )
        database.execute(f"GRANT CREATE ON DATABASE {database.name} TO {user.name}")
        with pytest.raises(
            ChangelingError, match=r"lacks the right to publish these tables \(must be owner of table a\)"
        ):
            ensure(database, "a", connection=user.connection)
        database.execute(statement)
        assert ensure(database, "a", connection=user.connection) == []
        with pytest.raises(ChangelingError) as raised:
            ensure(database, "*", connection=user.connection)
        added = 'ALTER PUBLICATION "p" ADD TABLE ONLY "public"."b"'
        assert str(raised.value).endswith(f"(must be owner of publication p); let their owner run: {added}")
        database.execute(added)
        assert ensure(database, "*", connection=user.connection) == []


def test_who_owns_the_tables_needs_no_more_than_to_create(database: Database) -> None:
    with role(database, "REPLICATION") as user:
        database.execute(
            f"GRANT CREATE ON DATABASE {database.name} TO {user.name}",
            f"CREATE TABLE a (id int PRIMARY KEY); ALTER TABLE a OWNER TO {user.name}",
        )
        assert ensure(database, "*", connection=user.connection, filters={"a": "id > 1"}) == ["a"]
        assert ensure(database, "*", connection=user.connection, filters={"a": "id > 1"}) == []


@pytest.mark.parametrize("made", ["FOR ALL TABLES", "FOR TABLES IN SCHEMA public", "FOR TABLE a, b"])
def test_what_somebody_else_made_is_used_as_it_is(database: Database, made: str) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    database.execute(f"CREATE PUBLICATION p {made}")
    before = database.rows(SETTINGS)
    assert ensure(database, "*") == []
    assert database.rows(SETTINGS) == before
    database.execute("CREATE TABLE c (id int PRIMARY KEY)")
    assert ensure(database, "*") == (["c"] if "a, b" in made else [])
    assert [row[1] for row in members(database)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("FOR ALL TABLES WITH (publish = 'insert, update')", "publishes insert, update"),
        ("WITH (publish = '')", "publishes nothing"),
        ("FOR TABLE t", "publishes partitions under their own names"),
        ("FOR ALL TABLES", "publishes partitions under their own names"),
        ("FOR TABLE ONLY g (id) WITH (publish_via_partition_root)", 'does not publish x, d of "public"."g"'),
        ("FOR ALL TABLES WITH (publish_via_partition_root)", 'does not publish d of "public"."g"'),
    ],
)
def test_what_somebody_else_created_to_publish_less_is_reported_and_can_be_fixed(
    database: Database, made: str, why: str
) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (9)",
        "CREATE TABLE g (id int PRIMARY KEY, x int, d int GENERATED ALWAYS AS (id) STORED)",
        f"CREATE PUBLICATION p {made}",
    )
    message = refused(database, "*")
    assert f"publication p {why}" in message
    for _ in range(4):
        mend(database, message)
        try:
            ensure(database, "*")
            break
        except ChangelingError as error:
            message = str(error)
    assert members(database) == [("public", "g", ["id", "x", "d"], None), ("public", "t", ["id"], None)]


def test_one_for_inserts_that_publishes_more_would_break_writers(database: Database) -> None:
    database.execute("CREATE TABLE bag (a int)", "CREATE PUBLICATION p")
    with pytest.raises(
        ChangelingError, match=re.escape("""ALTER PUBLICATION "p" SET (publish = 'insert, truncate')""")
    ):
        ensure(database, "*", publication=Publication("p", inserts_only=True))


def test_a_table_whose_updates_the_server_would_refuse_is_not_published(database: Database) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE bag (a int)", "INSERT INTO bag VALUES (1)")
    assert 'would refuse updates and deletes of "public"."bag" once it is published' in refused(database, "*")
    database.execute("UPDATE bag SET a = 2")


def test_a_partition_whose_updates_the_server_would_refuse_is_not_published(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id int) PARTITION BY RANGE (id)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (9)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (1)",
    )
    assert 'cannot delete from table "t_1"' in refused(database, "*")
    database.execute("UPDATE t SET id = 2")


def test_a_table_that_is_gone_is_reported(database: Database) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)")
    found = catalog.tables(database.connection, ["*"])
    database.execute("DROP TABLE a")
    with pytest.raises(ChangelingError, match=r'relation "public\.a" does not exist, when running: CREATE PUBLICATION'):
        Publication("p").ensure(database.connection, Server("1", database.name, 180_000), found, {})


def test_dropping_one_that_is_not_ours_to_drop_is_an_error(database: Database) -> None:
    ensure(database, "*")
    with role(database) as user, pytest.raises(psycopg.errors.InsufficientPrivilege):
        Publication("p").drop(user.connection)
    assert Publication("p").exists(database.connection)
