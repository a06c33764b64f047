"""`changeling convert` as a user runs it."""

import contextlib
import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest

from changeling.formats import registry
from tests.cli.conftest import COMMAND, Run


def test_there_and_back(run: Run, tmp_path: Path) -> None:
    done = run("convert", "xtdb.jsonl", "--from", "xtdb", "--to", "arcion-json", "-O", "a.jsonl")
    assert done.returncode == 0
    assert "as text            7 changes with numbers or others of unknown type (--columns gives types)" in done.stderr
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
        "as_text": 0,
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


ROWS = [
    {"id": 1, "v": "a", "w": "b"},
    {"id": 2, "w": "b2", "v": "a2"},
]


def debezium(row: dict[str, Any], place: int, op: str = "c") -> str:
    source = {"connector": "mysql", "db": "d", "table": "t", "file": "bin.000001", "pos": place, "row": 0}
    return json.dumps({"op": op, "before": row if op == "u" else None, "after": row, "source": source, "ts_ms": None})


def test_rows_of_csv_without_a_header_need_the_same_columns_too(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("\n".join(debezium(row, place) for place, row in enumerate(ROWS)))
    call = ("convert", "in.jsonl", "--from", "debezium-json", "--key", "id", "--to", "arcion-csv", "-O", "o.csv")
    done = run(*call, "--out-option", "include_header=false")
    assert done.returncode == 4
    done = run(*call, "--out-option", "include_header=false", "--columns", "id:int64,v:string,w:string")
    assert done.returncode == 0, done.stderr
    done = run("decode", "o.csv", "--from", "arcion-csv", "--columns", "id:int64,v:string,w:string", "--typed")
    assert [json.loads(line)["after"] for line in done.stdout.splitlines()] == ROWS


def test_rows_of_csv_with_different_columns_are_named_with_all_that_would_be_lost(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("\n".join([debezium(ROWS[0], 0), debezium(ROWS[1], 1, "u")]))
    call = ("convert", "in.jsonl", "--from", "debezium-json", "--key", "id", "--to", "arcion-csv", "-O", "o.csv")
    refused = run(*call, "--out-option", "mode=snapshot")
    assert refused.returncode == 4
    assert "Allow it with --drop before,position,update; nothing was written." in refused.stderr
    assert "a file of CSV has one header, and these changes need two: give --columns" in refused.stderr
    drop = ("--drop", "before,position,update", "--columns", "id:int64,v:string,w:string")
    assert run(*call, "--out-option", "mode=snapshot", *drop).returncode == 0


def test_where_positions_are_lost_the_input_must_be_in_order(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("\n".join([debezium(ROWS[0], 20, "u"), debezium(ROWS[0], 10)]))
    call = ("convert", "in.jsonl", "--from", "debezium-json", "--key", "id", "--to", "dataworks", "-O", "o.jsonl")
    done = run(*call, "--drop", "position")
    assert done.returncode == 4
    assert "--drop order" in done.stderr
    assert run(*call, "--drop", "position,order").returncode == 0


def test_tables_on_one_topic_are_not_mixed(run: Run, tmp_path: Path) -> None:
    other = debezium(ROWS[0], 2).replace('"db": "d"', '"db": "e"')
    (tmp_path / "in.jsonl").write_text("\n".join([debezium(ROWS[0], 1), other]))
    call = ("convert", "in.jsonl", "--from", "debezium-json", "--key", "id", "--carrier", "kcat", "-O", "o")
    assert "table:" in run(*call, "--to", "dataworks", "--drop", "position").stderr
    assert run(*call, "--to", "ydb-debezium", "--drop", "commit_time,position").returncode == 0
    done = run("decode", "o", "--from", "ydb-debezium", "--carrier", "kcat", "--key", "id")
    assert [json.loads(line)["table"]["catalog"] for line in done.stdout.splitlines()] == ["d", "e"]


def half(number: int, key: int, side: str) -> str:
    flags = {"_before_image_": "Y" if side == "before" else "N", "_after_image_": "N" if side == "before" else "Y"}
    return json.dumps({"_sequence_id_": str(number), "_operation_type_": "U", "_execute_time_": 1, **flags, "id": key})


def test_halves_are_joined_by_key_first_and_a_lone_one_removes_its_row(run: Run, tmp_path: Path) -> None:
    halves = [
        half(10, 1, "before"),
        half(10, 2, "before"),
        half(10, 1, "after"),
        half(10, 2, "after"),
        half(11, 1, "before"),
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(halves))
    call = ("convert", "in.jsonl", "--from", "dataworks", "--table", "t", "--key", "id")
    assert run(*call, "--to", "arcion-json", "-O", "o.jsonl").returncode == 0
    done = run("decode", "o.jsonl", "--from", "arcion-json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["op"], line["before"], line["after"]) for line in lines] == [
        ("update", {"id": "1"}, {"id": "1"}),
        ("update", {"id": "2"}, {"id": "2"}),
        ("delete", {"id": "1"}, None),
    ]


def test_a_lone_half_stays_in_its_place(run: Run, tmp_path: Path) -> None:
    """An after-half without a partner, then the delete of its row: in that order, also where positions are lost."""
    delete = half(2, 1, "before").replace('"U"', '"D"')
    (tmp_path / "in.jsonl").write_text("\n".join([half(1, 1, "after"), delete]))
    done = run(
        "convert", "in.jsonl", "--from", "dataworks", "--table", "t", "--key", "id", "--to", "ydb-json", "-O", "-",
        "--drop", "position,transaction,commit_time",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [list(json.loads(line))[1] for line in done.stdout.splitlines()] == ["update", "erase"]


def test_a_limit_never_cuts_an_update_in_two(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("\n".join([half(10, 1, "before"), half(10, 1, "after"), half(11, 2, "after")]))
    call = (
        "convert",
        "in.jsonl",
        "--from",
        "dataworks",
        "--table",
        "t",
        "--key",
        "id",
        "--to",
        "arcion-json",
        "-O",
        "-",
    )
    done = run(*call, "--limit", "1")
    assert [json.loads(line)["opType"] for line in done.stdout.splitlines()] == ["U"]


def test_a_position_that_looks_like_the_place_of_arrival_is_still_one(run: Run, tmp_path: Path) -> None:
    records = [
        {"key": [9], "update": {}, "newImage": {"a": "q"}, "ts": [0, 0]},
        {"key": [1], "update": {}, "newImage": {"a": "x"}, "ts": [0, 1]},
        {"key": [1], "erase": {}, "oldImage": {"a": "x"}, "ts": [0, 5]},
    ]
    (tmp_path / "z.json").write_text("\n".join(map(json.dumps, records)))
    call = ["convert", "z.json", "--from", "ydb-json", "--table", "t", "--key", "id", "--to", "xtdb", "-O", "x.json"]
    done = run(*call)
    assert done.returncode == 4
    assert "--drop position,transaction;" in done.stderr
    done = run(*call, "--drop", "position,transaction")
    assert done.returncode == 0, done.stderr
    done = run("decode", "x.json", "--from", "xtdb")
    assert [json.loads(line)["position"] for line in done.stdout.splitlines()] == ["010.010", "011.010", "015.010"]


def test_tables_are_distinguished_by_all_parts_of_their_names(run: Run, tmp_path: Path) -> None:
    one = debezium(ROWS[0], 1).replace('"db": "d"', '"db": "a.b"').replace('"table": "t"', '"table": "c"')
    other = debezium(ROWS[0], 2).replace('"db": "d"', '"db": "a"').replace('"table": "t"', '"table": "b.c"')
    (tmp_path / "in.jsonl").write_text("\n".join([one, other]))
    done = run(
        "convert", "in.jsonl", "--from", "debezium-json", "--key", "id", "--to", "ydb-json", "-O", "o",
        "--drop", "position",
    )  # fmt: skip
    assert done.returncode == 4
    assert "table:" in done.stderr


def test_a_reject_holds_the_raw_record_whatever_rejected_it(run: Run, tmp_path: Path) -> None:
    done = run(
        "convert",
        "xtdb.jsonl",
        "--from",
        "xtdb",
        "--columns",
        "name:int32",
        "--to",
        "ydb-json",
        "-O",
        "o",
        "--drop",
        "all",
    )
    assert done.returncode == 3
    raw = (tmp_path / "xtdb.jsonl").read_text().splitlines()
    rejects = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert all(reject["raw"] == raw[reject["origin"]["record"]] for reject in rejects)


def test_on_error_fail_leaves_no_output(run: Run, tmp_path: Path) -> None:
    done = run("convert", "broken.jsonl", "--from", "xtdb", "--to", "xtdb", "-O", "o.jsonl", "--on-error", "fail")
    assert done.returncode == 1
    assert not (tmp_path / "o.jsonl").exists()


def test_an_option_that_only_the_written_format_knows_may_be_given_with_o(run: Run, tmp_path: Path) -> None:
    record = '{"key":[1],"reset":{"a":1}}'
    call = ("convert", "-", "--from", "ydb-json", "--to", "ydb-json", "--table", "t", "--key", "id", "-O", "-")
    columns = ("--columns", "id:int64,a:int64,b:int64")
    assert json.loads(run(*call, *columns, stdin=record).stdout) == {"key": [1], "update": {"a": 1, "b": None}}
    assert json.loads(run(*call, *columns, "-o", "reset=true", stdin=record).stdout) == json.loads(record)
    assert json.loads(run(*call, stdin=record).stdout) == json.loads(record)


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


def test_messages_of_kcat_come_back_on_their_topics_with_their_keys_and_headers(run: Run, tmp_path: Path) -> None:
    """A topic whose last part is not the usual one, and a key in a header."""
    stamp = {"connector": "ydb", "version": "1.0.0", "ts_ms": 5, "step": 5, "txId": 6, "snapshot": False}
    deleted = json.dumps({"payload": {"op": "d", "source": stamp}}, separators=(",", ":"))
    messages = {
        "ydb-debezium": {
            "topic": "db/t/changes", "partition": 0, "offset": 0,
            "headers": ["__key", '{"payload":{"id":1}}', "trace", "7"], "key": None, "payload": deleted,
        },
        "ydb-json": {
            "topic": "db/t/changes", "partition": 0, "offset": 0, "key": "[1]", "payload": '{"key":[1],"update":{"n":2}}',
        },
    }  # fmt: skip
    for name, message in messages.items():
        (tmp_path / "k.json").write_text(json.dumps(message, separators=(",", ":")) + "\n")
        call = ["convert", "k.json", "--from", name, "--to", name, "--key", "id", "--carrier", "kcat", "-O", "o.json"]
        done = run(*call)
        assert done.returncode == 0, done.stderr
        assert json.loads((tmp_path / "o.json").read_text()) == message
    run(*call, "--out-option", "feed=copies")
    assert json.loads((tmp_path / "o.json").read_text())["topic"] == "db/t/copies"


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


def test_a_bar_is_shown_only_for_much_input_that_does_not_go_to_the_terminal(run: Run, tmp_path: Path) -> None:
    text = (tmp_path / "xtdb.jsonl").read_text()
    (tmp_path / "many.jsonl").write_text(text * (20_000_000 // len(text)))
    shown = {}
    for call in (
        ("convert", "xtdb.jsonl", "--to", "xtdb", "-O", "o"),
        ("convert", "many.jsonl", "--to", "xtdb", "-O", "o"),
        ("convert", "many.jsonl", "--to", "xtdb", "-O", "-"),
        ("decode", "many.jsonl"),
    ):
        shown[" ".join(call)] = "\x1b[" in on_terminal(tmp_path, *call)
    assert list(shown.values()) == [False, True, False, False]


def on_terminal(folder: Path, *arguments: str) -> str:
    """What a command shows on a terminal as its standard error."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([str(COMMAND), *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=theirs) as command:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):
            while part := os.read(ours, 4096):
                seen += part
        os.close(ours)
    assert command.returncode == 0, seen
    return seen.decode()
