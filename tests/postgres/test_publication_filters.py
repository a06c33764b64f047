"""Publications that include some rows of a table."""

import pytest

from changeling.model.errors import ChangelingError
from changeling.postgres.publication import Publication
from tests.postgres.publications import ensure, members, mend, refused
from tests.postgres.roles import role
from tests.postgres.server import Database

OLD = 140_000


@pytest.fixture
def database(emptied: Database) -> Database:
    return emptied


@pytest.mark.parametrize(
    "condition",
    ["region = 'EU'", "region LIKE '%E%' OR region = '{}'", "id > 5 -- few", "(id > 5) AND true", "region <> 'it''s)'"],
)
def test_rows_are_filtered_by_what_the_user_writes(database: Database, condition: str) -> None:
    database.execute(
        "CREATE TABLE a (id int, region text, PRIMARY KEY (id, region))", "CREATE TABLE b (id int PRIMARY KEY)"
    )
    assert ensure(database, "*", filters={"a": condition}) == ["a", "b"]
    (_, _, _, has), (_, _, _, none) = members(database)
    assert (has is None, none) == (False, None)
    assert ensure(database, "*", filters={"a": condition}) == []
    assert database.rows("SELECT pubname FROM pg_publication") == [("p",)]
    database.execute("INSERT INTO a VALUES (1, 'EU'), (6, 'US')", "UPDATE a SET region = 'x'", "DELETE FROM a")


def test_a_table_that_is_added_later_has_its_filter(database: Database) -> None:
    ensure(database, "*")
    database.execute("CREATE TABLE a (id int PRIMARY KEY)")
    assert ensure(database, "*", filters={"a": "id > 5"}) == ["a"]
    assert members(database) == [("public", "a", ["id"], "(id > 5)")]


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("id >", "syntax error at or near"),
        ("nobody = 1", 'column "nobody" does not exist'),
        ("id", "argument of PUBLICATION WHERE must be type boolean, not type integer"),
        (
            "random() > 0.5",
            "invalid publication WHERE expression: User-defined or built-in mutable functions are not allowed",
        ),
        ("id IN (SELECT 1)", "invalid publication WHERE expression: Only columns, constants, built-in operators"),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_a_filter_that_the_server_refuses_is_reported_with_the_statement(
    database: Database, condition: str, why: str, there: bool
) -> None:
    if there:
        ensure(database, "*")
    database.execute("CREATE TABLE a (id int PRIMARY KEY)")
    message = refused(database, "*", filters={"a": condition})
    assert why in message
    begin = 'ALTER PUBLICATION "p" ADD' if there else 'CREATE PUBLICATION "p" FOR'
    assert f', when running: {begin} TABLE ONLY "public"."a" WHERE ({condition}\n)' in message


def test_a_filter_by_what_updates_do_not_carry_is_refused_before_writers_are(database: Database) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY, region text)", "INSERT INTO a VALUES (1, 'EU')")
    message = refused(database, "*", filters={"a": "region = 'EU'"})
    assert message == (
        'the server would refuse updates and deletes of "public"."a" once it is published (cannot delete from table "a": Column '
        "used in the publication WHERE expression is not part of the replica identity): filter by its key alone, or run ALTER "
        'TABLE "public"."a" REPLICA IDENTITY FULL'
    )
    database.execute("UPDATE a SET region = 'US'")
    mend(database, message)
    assert ensure(database, "*", filters={"a": "region = 'EU'"}) == ["a"]
    database.execute("UPDATE a SET region = 'EU'", "DELETE FROM a")


def test_a_filter_for_inserts_may_use_any_column(database: Database) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY, region text)")
    publication = Publication("p", inserts_only=True)
    assert ensure(database, "*", filters={"a": "region = 'EU'"}, publication=publication) == ["a"]
    database.execute("INSERT INTO a VALUES (1, 'US')", "UPDATE a SET region = 'EU'")


def test_a_server_without_filters_is_not_asked_for_one(database: Database) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)")
    with pytest.raises(ChangelingError, match="from PostgreSQL 15 on"):
        ensure(database, "*", filters={"a": "id > 1"}, version=OLD)
    assert ensure(database, "*", version=OLD) == ["a"]


@pytest.mark.parametrize(
    ("first", "second"), [("id > 5", "id > 6"), ("id > 5", None), (None, "id > 5")], ids=["other", "gone", "new"]
)
def test_a_filter_that_changes_is_reported_since_rows_of_the_former_are_stored(
    database: Database, first: str | None, second: str | None
) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)")
    ensure(database, "*", filters={"a": first} if first else {})
    now = {"a": second} if second else {}
    message = refused(database, "*", filters=now)
    what = "publishes only rows with (id > 5) of" if first else "has no filter for"
    assert message == (
        f'publication p {what} "public"."a", other than `where`: run ALTER PUBLICATION "p" DROP TABLE "public"."a", then snapshot the '
        "table again; or choose another name with `publication:`"
    )
    mend(database, message)
    assert ensure(database, "*", filters=now) == ["a"]


def test_a_filter_that_somebody_else_wrote_is_believed_where_it_cannot_be_compared(database: Database) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE a WHERE (id > 1)")
    with role(database, "REPLICATION") as user:
        database.execute("GRANT SELECT ON a TO PUBLIC")
        assert ensure(database, "*", connection=user.connection, filters={"a": "id > 1 + 0"}) == []
