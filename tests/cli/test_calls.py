"""Wrong calls: exit code 2, and a message that says the right one."""

import json
from pathlib import Path

import pytest

from changeling.formats import registry
from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("decod", "x"), "there is no verb 'decod'; did you mean 'decode'?"),
        (("decode", "plain.jsonl"), "look like no format: say what they are with --from F"),
        (
            ("decode", "mixed.jsonl"),
            "fit xtdb and ydb-json alike: say what they are with --from xtdb or --from ydb-json",
        ),
        (("decode", "empty.jsonl"), "are missing"),
        (("decode", "xtdb.jsonl", "--from", "ydb"), "did you mean 'ydb-debezium', 'ydb-dynamodb' or 'ydb-json'?"),
        (("decode", "xtdb.jsonl", "--from", "XTDB"), "did you mean 'xtdb'?"),
        (("decode", "xtdb.jsonl", "--columns", "a:float"), "did you mean 'float32' or 'float64'?"),
        (("decode", "xtdb.jsonl", "--frm", "xtdb"), "there is no flag '--frm'; did you mean '--from'?"),
        (("decode", "xtdb.jsonl", "--from", "xtdb", "--rejects", "xtdb.jsonl"), "give another path"),
        (
            ("convert", "xtdb.jsonl", "--from", "xtdb", "--to", "xtdb", "-O", "o", "--rejects", "./o"),
            "give another path",
        ),
        (("decode", "xtdb.jsonl", "--from", "xtdb", "--rejects", "s3://b/r"), "kept in a local file"),
        (("decode", "xtdb.jsonl", "--from", "xtdb", "--key", "a,a"), "names a column twice"),
        (("decode", "xtdb.jsonl", "--from", "xtdb", "--columns", "a:int8,a:json"), "is listed twice"),
        (("decode", "xtdb.jsonl", "--from", "xtdbb"), "there is no format 'xtdbb'; did you mean 'xtdb'?"),
        (("decode", "xtdb.json", "--from", "xtdb"), "xtdb.json"),
        (("decode", "xtdb.jsonl", "--from", "xtdb", "-o", "topic_prefx=a"), "did you mean 'topic_prefix'?"),
        (("decode", "xtdb.jsonl", "--from", "xtdb", "-o", "topic_prefix"), "write -o NAME=VALUE"),
        (("decode", "xtdb.jsonl", "--from", "xtdb", "--columns", "a:int46"), "did you mean 'int64'?"),
        (("decode", "xtdb.jsonl", "--from", "xtdb", "--columns", "a"), "write name:type"),
        (("decode", "xtdb.jsonl", "--from", "xtdb", "--table", "a..b"), "write [catalog.][schema.]name"),
        (("decode", "xtdb.jsonl", "--from", "xtdb", "--schema", "nope.json"), "No such file"),
        (("decode", "ydb.jsonl", "--from", "ydb-json", "--table", "t"), "--key"),
        (("decode", "ydb.jsonl", "--from", "ydb-json", "--key", "id", "-o", "mode=NEW"), "mode"),
        (("convert", "xtdb.jsonl", "--from", "xtdb", "--to", "xtdb"), "-O"),
        (("convert", "xtdb.jsonl", "--from", "xtdb", "--to", "xtdb", "-O", "x", "--drop", "befor"), "'before'"),
        (("convert", "xtdb.jsonl", "--from", "xtdb", "--to", "xtdb", "-O", "x", "--out-option", "nme=a"), "'name'"),
        (
            (
                "convert",
                "xtdb.jsonl",
                "--from",
                "xtdb",
                "--to",
                "transferia",
                "-O",
                "x",
                "--out-option",
                "serialization=proto",
            ),
            "proto",
        ),
    ],
)
def test_a_wrong_call_is_told_the_right_one(run: Run, tmp_path: Path, arguments: tuple[str, ...], hint: str) -> None:
    (tmp_path / "plain.jsonl").write_text('{"id":1,"name":"Ann"}\n')
    (tmp_path / "empty.jsonl").write_text("\n")
    first = (tmp_path / "xtdb.jsonl").read_text().splitlines()[0]
    (tmp_path / "mixed.jsonl").write_text(first + '\n{"key":[1],"erase":{}}\n')
    done = run(*arguments)
    assert done.returncode == 2
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_help_and_version(run: Run) -> None:
    assert run("--help").returncode == 0
    assert run("convert", "--help").returncode == 0
    assert run("--version").stdout.startswith("changeling 0.")


def test_formats_lists_what_each_carries(run: Run) -> None:
    entries = [json.loads(line) for line in run("formats", "--json").stdout.splitlines()]
    assert [entry["name"] for entry in entries] == registry.names()
    assert all(entry["reads"] and entry["writes"] and entry["capabilities"] for entry in entries)
    table = run("formats").stdout
    assert all(name in table for name in registry.names())
