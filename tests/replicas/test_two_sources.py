"""Two sources that have a table of one name: two replicas, and a user says which."""

import subprocess
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.model.errors import UsageError
from changeling.model.table import TableName
from changeling.replicas.table_lookup import WantedTable
from tests.cli.conftest import COMMAND
from tests.log.commands import printed_objects
from tests.log.lakes import Shop, shop
from tests.replicas.shops import item, replica, replicas, then

USERS, SHOPS = TableName(None, "public", "users"), TableName("mall", "public", "users")
NORTH, SOUTH = TableName("north", None, "users"), TableName("south", None, "users")
ANN, BOB, EVE = ({"id": number, "name": name, "n": 0} for number, name in ((1, "ann"), (1, "bob"), (2, "eve")))


@pytest.mark.parametrize(
    ("name", "source", "known", "found"),
    [
        ("users", None, [("a", USERS)], ("a", USERS)),
        ("users", "b", [("a", USERS), ("b", USERS)], ("b", USERS)),
        ("public.users", None, [("a", USERS), ("b", SHOPS)], ("a", USERS)),
        ("mall.public.users", None, [("a", USERS), ("b", SHOPS)], ("b", SHOPS)),
        # The source goes first: its table fits, though another source has one of exactly that name.
        ("public.users", "b", [("a", USERS), ("b", SHOPS)], ("b", SHOPS)),
        ("public.users", "a", [("a", USERS), ("a", SHOPS), ("b", USERS)], ("a", USERS)),
        # Databases without schemas.
        ("south.users", None, [("a", NORTH), ("a", SOUTH)], ("a", SOUTH)),
        ("users", "a", [("a", NORTH), ("b", SOUTH)], ("a", NORTH)),
        ("west.users", None, [("a", NORTH)], None),
        # More of the name than the source knows.
        ("mall.public.users", None, [("a", USERS)], ("a", USERS)),
        ("orders", None, [("a", USERS)], None),
        ("orders", "b", [("a", USERS)], None),
    ],
)
def test_a_name_means_one_table(
    name: str, source: str | None, known: list[tuple[str, TableName]], found: tuple[str, TableName] | None
) -> None:
    assert WantedTable(TableName.parse(name), source).among(known) == found


@pytest.mark.parametrize(
    ("name", "source", "known", "reason"),
    [
        (
            "users",
            None,
            [("b", USERS), ("a", USERS)],
            "several tables are called users: public.users of a, public.users of b; say which with --source a or --source b",
        ),
        (
            "users",
            "a",
            [("a", USERS), ("a", SHOPS)],
            "several tables are called users of source a: mall.public.users of a, public.users of a; write more of the name",
        ),
        ("users", "c", [("a", USERS), ("b", USERS)], "source c has no table users; of that name there is one of a, b"),
        (
            "south.users",
            "a",
            [("a", NORTH), ("b", SOUTH)],
            "source a has no table south.users; of that name there is one of b",
        ),
    ],
)
def test_a_name_that_several_tables_have_is_refused(
    name: str, source: str | None, known: list[tuple[str, TableName]], reason: str
) -> None:
    with pytest.raises(UsageError) as refused:
        WantedTable(TableName.parse(name), source).among(known)
    assert str(refused.value) == reason


@pytest.fixture(scope="module")
def two(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    sources: list[dict[str, Any]] = [
        {"name": name, "type": "files", "path": f"in/{name}/*.json", "format": "transferia"} for name in "ab"
    ]
    made = shop(
        tmp_path_factory.mktemp("two"),
        *sources,
        tables=[
            {"name": "users", "source": "b", "mode": "history"},
            {"name": "logins", "source": "b", "mode": "append"},
        ],
    )
    made.write("a/1.json", item(1, "insert", ANN), item(1, "insert", ANN, table="logins"))
    made.write("b/1.json", item(1, "insert", BOB), item(1, "insert", BOB, table="logins"))
    made.pipeline.run(once=True)
    made.write("a/2.json", item(2, "insert", EVE))
    made.write("b/2.json", item(2, "delete", None, {"id": 1}))
    made.pipeline.run(once=True)
    return made


def test_each_source_has_a_replica_of_its_own(two: Shop) -> None:
    assert replicas(two) == [
        "a__public__users",
        "b__public__users",
        "public__logins",
        # Histories have names of their own, and there is one alone.
        "public__users__history",
    ]
    assert replica(two, "a__public__users") == [ANN, EVE]
    assert replica(two, "b__public__users") == []


def test_a_source_says_which_table_is_read(two: Shop) -> None:
    pipeline = two.pipeline
    for source, now, before in (("a", [ANN, EVE], [ANN]), ("b", [], [BOB])):
        found = pipeline.current("users", source=source)
        assert found is not None
        assert sorted(found[0].to_pylist(), key=repr) == now
        assert then(two, "users", source=source) == now
        assert then(two, "users", source=source, as_of_transaction=1) == before
        assert printed_objects(two, "replica", "users", "--source", source) == now
    for source, operations in (("a", ["insert"]), ("b", ["insert", "delete"])):
        lines = printed_objects(two, "history", "users", "--key", '{"id": 1}', "--source", source)
        assert [line["op"] for line in lines] == operations
    assert pipeline.rebuild("users", source="a") == 2
    assert then(two, "users", source="a") == [ANN, EVE]
    # Of source b, the log alone has the table.
    assert then(two, "logins", source="b") == [BOB]
    assert then(two, "logins", source="a") == then(two, "logins") == [ANN]


@pytest.mark.parametrize("arguments", [["replica", "users"], ["history", "users", "--key", '{"id": 1}']])
def test_a_name_of_several_sources_alone_is_a_wrong_call(two: Shop, arguments: list[str]) -> None:
    done = subprocess.run([str(COMMAND), *arguments], cwd=two.folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "public.users of a, public.users of b; say which with --source a or --source b" in done.stderr


def test_a_source_without_the_table_is_named(two: Shop) -> None:
    for call in (two.pipeline.replica, two.pipeline.current, two.pipeline.rebuild):
        with pytest.raises(UsageError, match="source c has no table users; of that name there is one of a, b"):
            call("users", source="c")
    with pytest.raises(UsageError, match="several tables are called users"):
        two.pipeline.rebuild("users")
