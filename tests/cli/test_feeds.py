"""`changeling sql` and `changeling feed`, as a user calls them."""

import json
from pathlib import Path

import pytest

from changeling.feeds.feed import Feed
from changeling.model.table import TableName
from tests.cli.conftest import Run

FILE = "name: shop\nwarehouse: ./lake\nsources: [{name: drop, type: files, path: in, format: xtdb}]\n"


@pytest.fixture(autouse=True)
def pipeline(tmp_path: Path) -> Path:
    file = tmp_path / "shop.yaml"
    file.write_text(FILE)
    return file


def test_statements_say_what_they_did(run: Run) -> None:
    done = run(
        "sql",
        "ALTER TABLE a.users ADD CHANGEFEED f WITH (FORMAT = 'JSON', MODE = 'UPDATES'), "
        "ALTER CHANGEFEED f SET (RETENTION_PERIOD = 'P1D');\nALTER TABLE users DROP CHANGEFEED f",
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "changeling: line 2: feed f is of table a.users, not of users\n"
        "  ALTER TABLE users DROP CHANGEFEED f\n"
        "                                    ^\n"
    )
    done = run("sql", "ALTER TABLE users ADD CHANGEFEED f WITH (FORMAT = 'JSON', MODE = 'UPDATES')")
    assert (done.returncode, done.stdout) == (0, "feed f on users added: it waits for the table\n")
    done = run("sql", "ALTER TABLE users ALTER CHANGEFEED f SET (RETENTION_PERIOD = 'P1D'), ALTER CHANGEFEED f DISABLE")
    assert (done.returncode, done.stdout) == (0, "feed f on users altered\nfeed f on users disabled\n")
    done = run("sql", "--json", "ALTER TABLE users DROP CHANGEFEED f")
    assert json.loads(done.stdout) == {
        "action": "drop",
        "feed": "f",
        "table": "users",
        "source": None,
        "status": "dropped",
    }


def test_statements_may_come_from_the_input(run: Run) -> None:
    done = run("sql", "-", stdin="-- none\nALTER TABLE users ADD CHANGEFEED f WITH (FORMAT='xtdb')")
    assert (done.returncode, done.stderr) == (
        2,
        "changeling: line 2: MODE is missing: a feed needs FORMAT and MODE\n"
        "  ALTER TABLE users ADD CHANGEFEED f WITH (FORMAT='xtdb')\n"
        "                                   ^\n",
    )


def test_a_feed_is_created_altered_shown_and_dropped(run: Run) -> None:
    assert run("feed", "list").stdout == "there are no feeds\n"
    given = ("--with", "FORMAT=arcion-csv", "--with", "MODE=UPDATES", "--with", "initial_scan=true")
    done = run("feed", "create", "f", "--table", "a.users", *given, "-o", "mode=full", "--source", "drop")
    assert (done.returncode, done.stdout) == (0, "feed f added: it waits for the table\n")
    done = run("feed", "alter", "f", "--with", "RETENTION_PERIOD=P2D", "--json")
    feed = json.loads(done.stdout)
    assert (
        feed
        == json.loads(run("feed", "list", "--json").stdout)
        == json.loads(run("feed", "show", "f", "--json").stdout)
    )
    assert feed == {
        "name": "f",
        "id": feed["id"],
        "source": "drop",
        "table": {"catalog": None, "schema": "a", "name": "users"},
        "format": "arcion-csv",
        "mode": "UPDATES",
        "virtual_timestamps": False,
        "barriers_interval": None,
        "schema_changes": False,
        "user_sids": False,
        "initial_scan": True,
        "retention": 172_800,
        "partitions": 1,
        "aws_region": None,
        "options": {"mode": "full"},
        "topic": "table",
        "status": "pending",
        "start": None,
        "created_at": feed["created_at"],
        "in_file": False,
        "disabled_by": None,
    }
    assert set(feed) == set(Feed.__struct_fields__)
    assert run("feed", "alter", "f", "--disable").stdout == "feed f disabled\n"
    shown = [line.split() for line in run("feed", "list").stdout.splitlines()]
    assert shown == [
        ["feed", "table", "source", "format", "mode", "topic", "status", "partitions"],
        ["f", str(TableName(None, "a", "users")), "drop", "arcion-csv", "UPDATES", "table", "disabled", "1"],
    ]
    members = dict(line.split(maxsplit=1) for line in run("feed", "show", "f").stdout.splitlines())
    assert (members["status"].strip(), members["RETENTION_PERIOD"].strip()) == ("disabled", "PT48H")
    assert run("feed", "drop", "f").stdout == "feed f dropped\n"
    assert run("feed", "list", "--json").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("feed", "lst"), "there is no action 'lst'; did you mean 'list'?"),
        (("feed", "create", "f", "--tabel", "t"), "there is no flag '--tabel'; did you mean '--table'?"),
        (("feed", "create", "f"), "required: --table"),
        (("feed", "create", "f", "--table", "t", "--with", "FORMAT"), "write --with NAME=VALUE"),
        (("feed", "create", "f", "--table", "t", "--with", "MODE=A", "--with", "MODE=B"), "--with MODE is given twice"),
        (("sql", "--source", "drp", "DROP TABLE users"), "there is no source 'drp'; did you mean 'drop'?"),
        (("feed", "read", "g", "--consumer", ""), "--consumer takes a name"),
        (("feed", "create", "f", "--table", "t", "--with", "FORMT=JSON"), "there is no option 'FORMT'; did you mean"),
        (("feed", "alter", "f"), "one of the arguments --disable --with is required"),
        (("feed", "alter", "f", "--disable"), "there is no feed 'f'; there are none"),
        (("feed", "drop", "g"), "feed g is declared in the pipeline file: take it out there, then drop it"),
        (
            ("feed", "alter", "g", "--with", "RETENTION_PERIOD=P1D"),
            "declared in the pipeline file: set its options there",
        ),
        (("sql",), "required: TEXT"),
        (("sql", "DROP TABLE users"), "there is no table users; there are none"),
        (("sql", "-- a comment\nDROP TABLE users"), "line 2: there is no table users; there are none"),
        (("sql", "--", "--x\nDROP TABLE users"), "line 2: there is no table users; there are none"),
    ],
)
def test_a_wrong_call_gets_a_hint_at_the_right_one(
    run: Run, pipeline: Path, arguments: tuple[str, ...], hint: str
) -> None:
    pipeline.write_text(FILE + "feeds: [{name: g, table: users, with: {FORMAT: JSON, MODE: UPDATES}}]\n")
    done = run(*arguments)
    assert done.returncode == 2
    assert hint in done.stderr
    assert "Traceback" not in done.stderr
