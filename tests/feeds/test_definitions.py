"""Definitions of feeds: stored without Spark and a lock, by several processes, from SQL and from the pipeline file."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from changeling.feeds.definitions import FEEDS, Definitions
from changeling.feeds.draft import DroppedTable
from changeling.feeds.execution import Done, execute
from changeling.feeds.feed import Feed
from changeling.feeds.known_tables import KnownTables
from changeling.feeds.options import DeclaredTopic, new_feed
from changeling.iceberg.reader import Tables
from changeling.model.errors import UsageError
from changeling.model.table import TableName
from changeling.pipelines.feed_sync import definitions_of, sync_declared
from changeling.pipelines.feeds import Feeds
from tests.feeds.seen_tables import KEYED, NAMESPACE, add_points, add_replica, add_schemas, tables_in
from tests.files.conftest import bucket, s3_endpoint
from tests.pipelines.pipeline_files import loaded

__all__ = ["bucket", "s3_endpoint"]

USERS = TableName(None, "public", "users")
SHORT = {"FORMAT": "JSON", "MODE": "UPDATES"}
WITH = "WITH (FORMAT = 'JSON', MODE = 'UPDATES')"


def definitions_in(folder: Path) -> Definitions:
    return Definitions(tables_in(folder), NAMESPACE)


def sql(tables: Tables, text: str, mode: str = "merge", **more: Any) -> list[Done]:
    definitions = Definitions(tables, NAMESPACE)
    known = KnownTables(tables, NAMESPACE, lambda source, table: mode, definitions.dropped_tables())
    return execute(text, definitions, known, **more)


def refused(tables: Tables, text: str, **more: Any) -> str:
    with pytest.raises(UsageError) as caught:
        sql(tables, text, **more)
    return str(caught.value)


def without_places(feed: Feed) -> Feed:
    return msgspec.structs.replace(feed, id="", created_at="")


def test_each_version_is_a_row_and_the_newest_wins(tmp_path: Path) -> None:
    definitions = definitions_in(tmp_path)
    assert (definitions.all(), definitions.dropped(), definitions.dropped_tables()) == ([], [], [])
    first = definitions.create(new_feed("f", USERS, SHORT))
    assert (len(first.id), first.created_at[-1]) == (32, "Z")
    second = definitions.alter("f", lambda feed: msgspec.structs.replace(feed, retention=5))
    assert definitions.alter("f", lambda feed: feed) == second
    third = definitions.activate("f", "pg", USERS, 7)
    assert third == msgspec.structs.replace(first, retention=5, source="pg", start=7, status="enabled")
    assert definitions.activate("f", "other", TableName(None, None, "x"), 9) == third
    assert definitions_in(tmp_path).all() == [definitions.get("f")] == [third]
    dropped = definitions.drop("f")
    assert (definitions.all(), definitions.dropped()) == ([], [dropped])
    again = definitions.create(new_feed("f", USERS, SHORT))
    assert again.id != first.id
    assert (definitions.all(), definitions.dropped()) == ([again], [])
    rows = tables_in(tmp_path).rows(FEEDS).sort_by("version").to_pylist()
    assert [(row["kind"], row["name"], row["id"], row["version"]) for row in rows] == [
        ("feed", "f", first.id, 1),
        ("feed", "f", first.id, 2),
        ("feed", "f", first.id, 3),
        ("feed", "f", first.id, 4),
        ("feed", "f", again.id, 5),
    ]
    assert [msgspec.json.decode(row["definition"], type=Feed) for row in rows] == [first, second, third, dropped, again]


def test_a_wrong_name_is_answered_with_the_closest(tmp_path: Path) -> None:
    definitions = definitions_in(tmp_path)
    definitions.create(new_feed("users_feed", USERS, SHORT))
    for call in (definitions.get, definitions.drop):
        with pytest.raises(UsageError, match=r"^there is no feed 'user_feed'; did you mean 'users_feed'\?$"):
            call("user_feed")
    with pytest.raises(UsageError) as caught:
        definitions.create(new_feed("Users_Feed", USERS, SHORT))
    assert str(caught.value) == (
        "there is a feed users_feed of table public.users already, which differs from Users_Feed in case only: "
        "choose another name"
    )


def test_whoever_comes_between_is_seen(tmp_path: Path) -> None:
    """Two processes decide on the same rows; the second commit is refused, and decided again."""
    one, two = definitions_in(tmp_path), definitions_in(tmp_path)
    one.create(new_feed("a", USERS, SHORT))
    seen: list[int | None] = []

    def shorter(feed: Feed) -> Feed:
        seen.append(feed.retention)
        if len(seen) == 1:
            two.alter("a", lambda there: msgspec.structs.replace(there, retention=100))
        assert feed.retention is not None
        return msgspec.structs.replace(feed, retention=feed.retention - 1)

    assert one.alter("a", shorter).retention == 99
    assert seen == [86_400, 100]
    assert [feed.retention for feed in two.all()] == [99]


def test_of_several_processes_one_creates_a_feed(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(
        "name: shop\nwarehouse: ./lake\nsources: [{name: drop, type: files, path: in, format: xtdb}]\n"
    )

    def start(name: str) -> subprocess.Popen[str]:
        text = f"ALTER TABLE users ADD CHANGEFEED same {WITH}; ALTER TABLE users ADD CHANGEFEED {name} {WITH}"
        line = [sys.executable, "-m", "changeling", "sql", text]
        return subprocess.Popen(
            line, cwd=tmp_path, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    started = [start(name) for name in ("a", "b", "c")]
    ended = [(process.communicate(timeout=300), process.returncode) for process in started]
    assert sorted(code for _, code in ended) == [0, 2, 2]
    winner = next(place for place, (_, code) in enumerate(ended) if code == 0)
    assert [feed.name for feed in definitions_in(tmp_path).all()] == sorted(["same", "abc"[winner]])
    for (_, message), code in ended:
        if code:
            assert message.startswith(
                "changeling: line 1: there is a feed same of table users already: choose another name\n"
            )


def test_a_feed_starts_at_the_last_point_of_its_table(tmp_path: Path) -> None:
    tables = tables_in(tmp_path)
    add_replica(tables, "pg", "public.users", point=3)
    add_replica(tables, "pg", "public.orders", point=2)
    add_points(tables, 1, 2, 3, 4, 5)
    done = sql(tables, f"ALTER TABLE users ADD CHANGEFEED f {WITH}, ADD CHANGEFEED g {WITH}")
    assert done == [
        Done(action="add", feed=name, table="public.users", source="pg", status="enabled") for name in ("f", "g")
    ]
    expected = msgspec.structs.replace(new_feed("f", USERS, SHORT), source="pg", status="enabled", start=5)
    assert without_places(Definitions(tables, NAMESPACE).get("f")) == expected


def test_a_replica_may_be_ahead_of_the_points(tmp_path: Path) -> None:
    tables = tables_in(tmp_path)
    add_replica(tables, "pg", "public.users", point=3)
    add_points(tables, 1, 2)
    sql(tables, f"ALTER TABLE users ADD CHANGEFEED f {WITH}")
    assert Definitions(tables, NAMESPACE).get("f").start == 2


def test_a_table_that_nobody_has_seen_is_waited_for(tmp_path: Path) -> None:
    tables = tables_in(tmp_path)
    add_schemas(tables, ("pg", "public.orders"))
    sql(tables, f"ALTER TABLE users ADD CHANGEFEED f {WITH}; ALTER TABLE orders ADD CHANGEFEED g {WITH}")
    f, g = Definitions(tables, NAMESPACE).all()
    assert (f.source, f.table, f.status, f.start) == (None, TableName(None, None, "users"), "pending", None)
    assert (g.source, g.table, g.status, g.start) == ("pg", TableName(None, "public", "orders"), "pending", None)


def test_a_rule_that_names_a_table_in_part_is_no_table(tmp_path: Path) -> None:
    tables = tables_in(tmp_path)
    add_schemas(tables, ("pg", "users"))
    add_replica(tables, "pg", "public.users")
    (done,) = sql(tables, f"ALTER TABLE users ADD CHANGEFEED f {WITH}")
    assert (done.table, done.status) == ("public.users", "enabled")


def test_tables_that_are_refused_are_marked(tmp_path: Path) -> None:
    tables = tables_in(tmp_path)
    add_replica(tables, "a", "users")
    add_replica(tables, "b", "users", shape=msgspec.structs.replace(KEYED, key=()))
    text = f"ALTER TABLE users ADD CHANGEFEED f {WITH}"
    mark = f"\n  {text}\n              ^^^^^"
    assert refused(tables, text) == (
        f"line 1: several tables are called users: users of a, users of b; say which with --source a or --source b{mark}"
    )
    assert refused(tables, text, source="b") == (
        "line 1: feed f: table users has no key: its changes cannot be sharded by row; declare one under `tables`"
        + mark
    )
    assert refused(tables, text, source="a", mode="append") == (
        "line 1: feed f: table users has the mode append, and therefore no rows: feeds need the mode merge or history"
        + mark
    )
    sql(tables, text, source="a")
    assert [feed.source for feed in Definitions(tables, NAMESPACE).all()] == ["a"]


def test_a_text_is_run_whole_or_not_at_all(tmp_path: Path) -> None:
    tables = tables_in(tmp_path)
    text = f"ALTER TABLE t ADD CHANGEFEED f {WITH}, ALTER CHANGEFEED f SET (RETENTION_PERIOD = 'P1D');\nALTER TABLE t DROP CHANGEFEED g"
    assert refused(tables, text) == (
        "line 2: there is no feed 'g'; known: f\n  ALTER TABLE t DROP CHANGEFEED g\n                                ^"
    )
    assert Definitions(tables, NAMESPACE).all() == []


@pytest.mark.parametrize(
    "shown",
    [
        """\
line 1: feed f is of table users, not of orders
  ALTER TABLE orders DROP CHANGEFEED f
                                     ^""",
        """\
line 1: MODE is fixed for a feed's life: add another feed; RETENTION_PERIOD, BARRIERS_INTERVAL, AWS_REGION can be set
  ALTER TABLE users ALTER CHANGEFEED f SET (MODE = 'NEW_IMAGE')
                                            ^^^^""",
        """\
line 1: RETENTION_PERIOD: records are kept for 30 days at most
  ALTER TABLE users ALTER CHANGEFEED f SET (RETENTION_PERIOD = Interval('P31D'))
                                                               ^^^^^^^^^^^^^^^^""",
        """\
line 1: BARRIERS_INTERVAL: records of xtdb have no place for it; FORMAT = 'JSON' has
  ALTER TABLE t ADD CHANGEFEED g WITH (MODE='NEW_AND_OLD_IMAGES', FORMAT='xtdb', RESOLVED_TIMESTAMPS='PT1S')
                                                                                                     ^^^^^^""",
        """\
line 1: FORMAT is missing: a feed needs FORMAT and MODE
  ALTER TABLE t ADD CHANGEFEED g WITH (MODE = 'UPDATES')
                               ^""",
        """\
line 1: feed h is declared in the pipeline file: take it out there, then drop it
  ALTER TABLE users DROP CHANGEFEED h
                                    ^""",
        """\
line 1: feed h is declared in the pipeline file: set its options there
  ALTER TABLE users ALTER CHANGEFEED h SET (RETENTION_PERIOD = 'P1D')
                                     ^""",
        """\
line 1: there is no table usrs; did you mean 'users'?
  DROP TABLE usrs
             ^^^^""",
        """\
line 1: feed h is declared in the pipeline file: take it out there, then drop the table
  DROP TABLE users
             ^^^^^""",
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_marked(tmp_path: Path, shown: str) -> None:
    tables = tables_in(tmp_path)
    add_replica(tables, "pg", "users")
    sql(tables, f"ALTER TABLE users ADD CHANGEFEED f {WITH}, ADD CHANGEFEED h {WITH}")
    text = shown.split("\n")[1].removeprefix("  ")
    message = refused(tables, text, declared={"h"})
    if len(text) <= 100:
        assert message == shown
    else:
        problem, line, mark = message.split("\n")
        assert (problem, line[len(mark) - 6 : len(mark)]) == (shown.split("\n")[0], "'PT1S'")


def test_a_dropped_table_takes_its_feeds_along_and_is_remembered(tmp_path: Path) -> None:
    tables = tables_in(tmp_path)
    sql(tables, f"ALTER TABLE users ADD CHANGEFEED e {WITH}, ALTER CHANGEFEED e DISABLE")
    add_replica(tables, "a", "users")
    sql(tables, f"ALTER TABLE users ADD CHANGEFEED f {WITH}; ALTER TABLE orders ADD CHANGEFEED g {WITH}")
    assert sql(tables, "DROP TABLE users") == [
        Done(action="drop", feed="e", table="users", source=None, status="dropped"),
        Done(action="drop", feed="f", table="users", source="a", status="dropped"),
        Done(action="drop table", table="users", source="a", status="dropped"),
    ]
    definitions = Definitions(tables, NAMESPACE)
    (gone,) = definitions.dropped_tables()
    assert gone == DroppedTable("a", TableName(None, None, "users"), gone.dropped_at)
    assert [feed.name for feed in definitions.all()] == ["g"]
    text = f"ALTER TABLE users ADD CHANGEFEED f {WITH}"
    said = refused(tables, text)
    assert said.startswith("line 1: feed f: table users of source a was dropped by DROP TABLE\n")
    assert said.endswith(f"\n  {' ' * len('ALTER TABLE ')}^^^^^")
    assert refused(tables, "DROP TABLE users").startswith("line 1: there is no table users; there are none\n")
    # Another source may have one of that name.
    add_replica(tables, "b", "users")
    assert sql(tables, text) == [Done(action="add", feed="f", table="users", source="b", status="enabled")]


FILE = """\
name: shop
warehouse: ./lake
sources: [{name: drop, type: files, path: in, format: xtdb}]
feeds:
  - {name: f, table: users, with: {FORMAT: JSON, MODE: UPDATES}}
  - {name: g, table: users, with: {FORMAT: arcion-csv, MODE: UPDATES}, topic: {type: files, path: out, partitions: 2}}
"""
EMPTY = FILE.partition("feeds:")[0]


def synced(folder: Path, text: str) -> dict[str, Feed]:
    found = loaded(folder, text)
    definitions = definitions_of(found)
    sync_declared(definitions, found)
    return {feed.name: feed for feed in definitions.all()}


def test_feeds_of_the_file_are_created_altered_disabled_and_enabled_again(tmp_path: Path) -> None:
    add_replica(tables_in(tmp_path), "drop", "users", point=1)
    add_points(tables_in(tmp_path), 1)
    first = synced(tmp_path, FILE)
    assert {name: without_places(feed) for name, feed in first.items()} == {
        "f": msgspec.structs.replace(
            new_feed("f", TableName(None, None, "users"), SHORT, source="drop"), in_file=True, status="enabled", start=1
        ),
        "g": msgspec.structs.replace(
            new_feed(
                "g",
                TableName(None, None, "users"),
                {"FORMAT": "arcion-csv", "MODE": "UPDATES"},
                source="drop",
                topic=DeclaredTopic("files", 2),
            ),
            in_file=True,
            status="enabled",
            start=1,
        ),
    }
    assert synced(tmp_path, FILE) == first
    assert tables_in(tmp_path).rows(FEEDS).num_rows == 2
    second = synced(
        tmp_path, FILE.replace("MODE: UPDATES}}", "MODE: UPDATES, RETENTION_PERIOD: 2d, BARRIERS_INTERVAL: PT5S}}")
    )
    assert second["f"] == msgspec.structs.replace(first["f"], retention=172_800, barriers_interval=5)
    assert second["g"] == first["g"]
    third = synced(tmp_path, EMPTY)
    assert third["f"] == msgspec.structs.replace(second["f"], status="disabled", disabled_by="file", in_file=False)
    assert synced(tmp_path, FILE) == first


def test_what_a_statement_disabled_stays_so(tmp_path: Path) -> None:
    synced(tmp_path, FILE)
    sql(tables_in(tmp_path), "ALTER TABLE users ALTER CHANGEFEED f DISABLE")
    for text in (FILE, EMPTY, FILE):
        found = synced(tmp_path, text)["f"]
        assert (found.status, found.disabled_by, found.in_file) == ("disabled", "statement", text == FILE)


@pytest.mark.parametrize(
    ("was", "now", "problem"),
    [
        ("MODE: UPDATES}}", "MODE: NEW_IMAGE}}", "MODE is UPDATES, the pipeline file says NEW_IMAGE"),
        ("FORMAT: JSON", "FORMAT: DEBEZIUM_JSON", "FORMAT is ydb-json, the pipeline file says ydb-debezium"),
        ("MODE: UPDATES}}", "MODE: UPDATES, INITIAL_SCAN: true}}", "INITIAL_SCAN is FALSE, the pipeline file says TRUE"),
        ("table: users, with: {FORMAT: J", "table: x, with: {FORMAT: J", "the table is users of source drop, the pipeline file says x"),
        ("partitions: 2", "partitions: 3", "the number of partitions is 2, the pipeline file says 3"),
        ("type: files, path: out", "type: table", "the type of the topic is files, the pipeline file says table"),
        ("MODE: UPDATES}, topic", "MODE: UPDATES}, options: {quote: x}, topic", "options is none, the pipeline file says quote: x"),
    ],
)  # fmt: skip
def test_what_is_fixed_for_a_feeds_life(tmp_path: Path, was: str, now: str, problem: str) -> None:
    add_replica(tables_in(tmp_path), "drop", "users")
    first = synced(tmp_path, FILE)
    with pytest.raises(UsageError) as caught:
        synced(tmp_path, FILE.replace(was, now, 1))
    message = str(caught.value)
    assert message.partition(": ")[2] == (
        f"{problem}: that is fixed for a feed's life; declare another feed, under another name"
    )
    assert {feed.name: feed for feed in definitions_in(tmp_path).all()} == first


def test_a_feed_of_a_statement_may_be_declared_afterwards(tmp_path: Path) -> None:
    sql(tables_in(tmp_path), f"ALTER TABLE users ADD CHANGEFEED f {WITH}")
    there = definitions_in(tmp_path).get("f")
    assert synced(tmp_path, EMPTY) == {"f": there}
    assert synced(tmp_path, FILE)["f"] == msgspec.structs.replace(there, in_file=True)


def test_definitions_may_lie_on_s3(tmp_path: Path, bucket: str) -> None:
    found = loaded(tmp_path, EMPTY.replace("./lake", f"s3://{bucket}/lake"))
    Feeds(found).sql(f"ALTER TABLE users ADD CHANGEFEED f {WITH}")
    Feeds(found).disable("f")
    assert [(feed.name, feed.status) for feed in Feeds(found)] == [("f", "disabled")]
