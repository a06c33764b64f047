"""`changeling convert` as a user runs it."""

import json
from pathlib import Path

import pytest

from changeling.formats import registry
from tests.cli.conftest import Run


def test_there_and_back(run: Run, tmp_path: Path) -> None:
    assert run("convert", "xtdb.jsonl", "--from", "xtdb", "--to", "arcion-json", "-O", "a.jsonl").returncode == 0
    done = run("convert", "a.jsonl", "--from", "arcion-json", "--to", "xtdb", "-O", "x.jsonl", "--json")
    assert done.returncode == 0
    assert json.loads(done.stderr) == {
        "records": 8,
        "accepted": 8,
        "rejected": 0,
        "changes": 8,
        "written": 8,
        "dropped": {},
        "relabelled": {},
    }
    before = [json.loads(line) for line in (tmp_path / "xtdb.jsonl").read_text().splitlines()]
    after = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    for was, now in zip(before, after, strict=True):
        assert (was["op"], was["ts_ms"], was["transaction"]) == (now["op"], now["ts_ms"], now["transaction"])
        assert was["source"]["tx_id"] == now["source"]["tx_id"]


def test_000_33_counts_run_through_the_whole_output(run: Run, tmp_path: Path) -> None:
    run("convert", "xtdb.jsonl", "--from", "xtdb", "--to", "arcion-json", "-O", "a.jsonl")
    last = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[-1])
    assert json.loads(last["operationcount"]) == {
        "insertCount": 4,
        "updateCount": 2,
        "deleteCount": 2,
        "replaceCount": 0,
    }


def test_a_refusal_names_everything_at_once_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("old")
    done = run("convert", "xtdb.jsonl", "--from", "xtdb", "--to", "ydb-json", "-O", "out.jsonl")
    assert done.returncode == 4
    assert "Allow it with --drop commit_time,position,table,transaction; nothing was written." in done.stderr
    assert (tmp_path / "out.jsonl").read_text() == "old"
    done = run(
        "convert", "xtdb.jsonl", "--from", "xtdb", "--to", "ydb-json", "-O", "out.jsonl",
        "--drop", "commit_time,position,table,transaction",
    )  # fmt: skip
    assert done.returncode == 0
    assert "dropped            8 transaction" in done.stderr
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 8


def test_on_error_fail_leaves_no_output(run: Run, tmp_path: Path) -> None:
    done = run("convert", "broken.jsonl", "--from", "xtdb", "--to", "xtdb", "-O", "o.jsonl", "--on-error", "fail")
    assert done.returncode == 1
    assert not (tmp_path / "o.jsonl").exists()


def test_001_16_halves_of_an_update_are_joined_again(run: Run, tmp_path: Path) -> None:
    """xtdb > dataworks > xtdb gives one `u` with both images."""
    drop = ("--drop", "position,transaction,table")
    run("convert", "xtdb.jsonl", "--from", "xtdb", "--to", "dataworks", "-O", "d.jsonl", *drop)
    done = run(
        "convert", "d.jsonl", "--from", "dataworks", "--to", "xtdb", "--table", "mydb.x.users", "--key", "_id",
        "-O", "x.jsonl", "--drop", "schema",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    before = [json.loads(line) for line in (tmp_path / "xtdb.jsonl").read_text().splitlines()]
    after = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert [(event["op"], event["before"], event["after"]) for event in after] == [
        (event["op"], event["before"], event["after"]) for event in before
    ]


def test_002_21_message_keys_with_kcat(run: Run, tmp_path: Path) -> None:
    done = run("convert", "xtdb.jsonl", "--from", "xtdb", "--to", "xtdb", "--carrier", "kcat", "-O", "k.jsonl")
    assert done.returncode == 0
    messages = [json.loads(line) for line in (tmp_path / "k.jsonl").read_text().splitlines()]
    assert [(message["topic"], message["key"]) for message in messages][:4] == [
        ("xtdb.cdc.users", "user-123"),
        ("xtdb.cdc.users", "user-123"),
        ("xtdb.cdc.users", "user-123"),
        ("xtdb.cdc.orders", "order-456"),
    ]
    done = run("decode", "k.jsonl", "--from", "xtdb", "--carrier", "kcat", "--limit", "1")
    assert json.loads(done.stdout)["origin"] == {
        "file": "k.jsonl",
        "ordinal": 0,
        "record": 0,
        "topic": "xtdb.cdc.users",
        "partition": 0,
        "offset": 0,
    }


@pytest.mark.parametrize("name", registry.names())
def test_xtdb_into_every_format_where_loss_is_allowed(name: str, run: Run, tmp_path: Path) -> None:
    users = [line for line in (tmp_path / "xtdb.jsonl").read_text().splitlines() if '"table":"users"' in line]
    (tmp_path / "users.jsonl").write_text("\n".join(users) + "\n")
    columns = (
        "_id:string,name:string,email:string,created_at:timestamptz,age:int32,is_active:bool,balance:decimal(10,2)"
    )
    columns += ",uuid:uuid,last_updated:timestamptz,last_login:timestamptz"
    done = run(
        "convert", "users.jsonl", "--from", "xtdb", "--to", name, "-O", "out", "--drop", "all",
        "--columns", columns, "--key", "_id",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    back = run(
        "decode",
        "out",
        "--from",
        name,
        "--table",
        "users",
        "--key",
        "_id",
        "--columns",
        columns,
        "--typed",
        "--rejects",
        "r",
    )
    assert back.returncode == 0, (back.stderr, (tmp_path / "r").read_text() if (tmp_path / "r").exists() else "")
    written = [json.loads(line) for line in back.stdout.splitlines()]
    rows = [line["after"] for line in written if line["after"] is not None]
    wanted = [json.loads(json.loads(line)["after"]) for line in users if json.loads(line)["after"] is not None]
    assert [{**row, **written[0]["key"]}["name"] for row in rows[:1]] == ["John Doe"]
    assert [(row["email"], row.get("age"), row.get("balance")) for row in rows] == [
        (row["email"], row.get("age"), row.get("balance")) for row in wanted
    ]
