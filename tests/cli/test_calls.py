"""Wrong calls: exit code 2, and a message that says the right one."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from changeling.formats import registry
from changeling.formats.options import ReadOptions, WriteOptions
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
        (("decode", "xtdb.jsonl", "--from", "debezum"), "there is no format 'debezum'; did you mean 'debezium'?"),
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
def test_a_wrong_call_gets_a_hint_at_the_right_one(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], hint: str
) -> None:
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
    shown = run("formats").stdout
    assert [name for name in registry.names() if f"\n{name}  " not in f"\n{shown}"] == []
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("name", registry.names())
def test_a_format_is_described_with_all_that_it_has(run: Run, name: str) -> None:
    (entry,) = [json.loads(line) for line in run("formats", name, "--json").stdout.splitlines()]
    lines = run("formats", name).stdout.splitlines()
    assert lines[0] == name
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    carried, _, rest = text.partition("\ncarries\n")[2].partition("\n\n")
    assert [line.split()[0] for line in carried.splitlines() if line[2] != " "] == entry["capabilities"]
    shared = {field.name for kind in (ReadOptions, WriteOptions) for field in msgspec.structs.fields(kind)}
    for option in {*entry["read_options"], *entry["write_options"]} - shared:
        # Each has a text of its own.
        assert re.search(rf"^  {option} +[^(\s]\S* \S+", rest, re.MULTILINE), option


def test_an_alias_names_the_format(run: Run) -> None:
    assert run("formats", "debezium").stdout == run("formats", "debezium-json").stdout


def test_the_legend_of_status_has_every_column(run: Run) -> None:
    done = run("status", "--legend")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    words = [line[2:].split("  ")[0] for line in done.stdout.splitlines() if line[2:3].strip()]
    assert {"read", "late", "to extraction", "to replica", "ties", "stale", "aside", "last barrier"} <= set(words)
