"""Without `--from`, files are read as what they look like; with a wrong one, the right one is named."""

import gzip
import json
from pathlib import Path

from tests.cli.conftest import Run


def test_files_are_read_as_what_they_look_like(run: Run) -> None:
    named = run("decode", "xtdb.jsonl", "--from", "xtdb")
    found = run("decode", "xtdb.jsonl")
    assert (found.returncode, found.stdout, found.stderr) == (0, named.stdout, "changeling: read as xtdb\n")


def test_standard_input_is_looked_at_and_then_read_whole(run: Run, tmp_path: Path) -> None:
    text = (tmp_path / "ydb.jsonl").read_text() * 500
    done = run("decode", "-", "--table", "t", "--key", "id", stdin=text)
    assert (done.returncode, done.stderr) == (0, "changeling: read as ydb-json\n")
    assert len(done.stdout.splitlines()) == len(text.splitlines())


def test_messages_and_compressed_files_are_looked_into(run: Run, tmp_path: Path) -> None:
    value = (tmp_path / "xtdb.jsonl").read_text().splitlines()[0]
    message = {"topic": "t", "partition": 0, "offset": 1, "key": None, "payload": value}
    (tmp_path / "messages.gz").write_bytes(gzip.compress(json.dumps(message).encode()))
    done = run("decode", "messages.gz", "--carrier", "kcat")
    assert (done.returncode, done.stderr) == (0, "changeling: read as xtdb\n")
    assert len(done.stdout.splitlines()) == 1


def test_rows_of_csv_show_their_dialect_in_the_delimiter_that_is_given(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(
        "_sequence_id_;_operation_type_;_execute_time_;_before_image_;_after_image_;id\n1;I;1703505330123;N;Y;7\n"
    )
    done = run("decode", "rows.csv", "-o", "delimiter=;", "--table", "t", "--key", "id")
    assert (done.returncode, done.stderr) == (0, "changeling: read as dataworks\n")
    assert json.loads(done.stdout)["after"] == {"id": "7"}


def test_convert_recognises_what_it_reads(run: Run) -> None:
    done = run(
        "convert", "ydb.jsonl", "--table", "t", "--key", "id", "--to", "debezium", "-O", "out.jsonl", "--drop", "all"
    )
    assert done.returncode == 0
    assert done.stderr.startswith("changeling: read as ydb-json\nread ")
    assert "records of debezium-json to out.jsonl" in done.stderr


def test_a_wrong_format_gets_a_hint_at_the_right_one(run: Run) -> None:
    reason = (
        "8 records, such as xtdb.jsonl record 0: the record has none of update, reset, erase: "
        "it must have exactly one, since they say what happened"
    )
    advice = "these are not records of ydb-json: they look like xtdb (--from xtdb)"
    call = ("xtdb.jsonl", "--from", "ydb-json", "--table", "t", "--key", "id")
    done = run("decode", *call)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[1:] == [f"  {reason}", f"  {advice}"]
    done = run("convert", *call, "--to", "xtdb", "-O", "out.jsonl")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-2:] == [f"  {reason}", f"  {advice}"]


def test_types_and_formats_have_the_names_that_people_know(run: Run) -> None:
    canonical = "_id:string,age:int32,balance:decimal(10,2),active:bool,tags:array<string>"
    known = "_id:text,age:INT,balance:numeric(10,2),active:boolean,tags:array<text>"
    first = run("decode", "xtdb.jsonl", "--from", "xtdb", "--typed", "--columns", canonical)
    assert first.returncode == 0
    assert run("decode", "xtdb.jsonl", "--from", "xtdb", "--typed", "--columns", known).stdout == first.stdout
    whole = run("decode", "xtdb.jsonl", "--from", "debezium-json")
    assert run("decode", "xtdb.jsonl", "--from", "debezium").stdout == whole.stdout
