"""`changeling decode` as a user runs it."""

import gzip
import json
import sys
from pathlib import Path

from tests.cli.conftest import Run

FIELDS = [
    "source",
    "table",
    "op",
    "key",
    "before",
    "after",
    "before_image",
    "after_image",
    "encoding",
    "position",
    "commit_time",
    "transaction",
    "schema_id",
    "origin",
    "meta",
]


def test_a_line_has_every_field_in_order(run: Run) -> None:
    done = run("decode", "xtdb.jsonl", "--from", "xtdb", "--source", "node1")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 8
    assert all(list(line) == FIELDS for line in lines)
    assert {line["source"] for line in lines} == {"node1"}
    assert lines[5]["origin"] == {"file": "xtdb.jsonl", "ordinal": 0, "record": 5}


def test_no_digit_is_lost_on_the_way_out(run: Run) -> None:
    done = run("decode", "ydb.jsonl", "--from", "ydb-json", "--table", "shop", "--key", "id")
    assert '"after":{"payload":"lorem ipsum","price":150.00,"note":null}' in done.stdout.splitlines()[0]


def test_the_size_of_a_record_is_a_setting(run: Run, tmp_path: Path) -> None:
    large = '{"key":[2],"update":{"v":"' + "x" * 2000 + '"}}'
    (tmp_path / "two.jsonl").write_text('{"key":[1],"update":{"v":"x"}}\n' + large + "\n")
    call = ("decode", "two.jsonl", "--from", "ydb-json", "--table", "t", "--key", "id")
    assert len(run(*call).stdout.splitlines()) == 2
    done = run(*call, "--record-bytes", "1500", "--rejects", "bad.jsonl")
    assert (done.returncode, len(done.stdout.splitlines())) == (3, 1)
    (reject,) = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert (reject["reason"], reject["raw"]) == (
        "the record has 2,029 bytes, over the limit of 1,500 (record_bytes); the first 1,024 are kept",
        large[:1024],
    )
    assert run(*call, "--record-bytes", "0").returncode == 2


def test_rejects_are_kept_and_reported(run: Run, tmp_path: Path) -> None:
    done = run("decode", "broken.jsonl", "--from", "xtdb", "--rejects", "bad.jsonl")
    assert done.returncode == 3
    reason = "1 record, such as broken.jsonl record 1: not an XTDB event: it has no 'source'"
    assert done.stderr == f"changeling: 1 of 3 records rejected, kept in bad.jsonl\n  {reason}\n"
    (reject,) = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    raw = (tmp_path / "broken.jsonl").read_text().splitlines()[1]
    assert reject["raw"] == raw
    assert reject["origin"] == {"file": "broken.jsonl", "ordinal": 0, "record": 1}
    assert len(done.stdout.splitlines()) == 2


def test_on_error_fail_stops_at_the_first(run: Run, tmp_path: Path) -> None:
    done = run("decode", "broken.jsonl", "--from", "xtdb", "--on-error", "fail")
    assert done.returncode == 1
    assert done.stderr.startswith("changeling: broken.jsonl record 1: not an XTDB event")
    assert not (tmp_path / "rejects.jsonl").exists()


def test_limit_stdin_gzip_and_folders(run: Run, tmp_path: Path) -> None:
    text = (tmp_path / "xtdb.jsonl").read_text()
    assert len(run("decode", "-", "--from", "xtdb", "--limit", "3", stdin=text).stdout.splitlines()) == 3
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "in" / "b.json").write_text(json.dumps([json.loads(line) for line in text.splitlines()], indent=2))
    done = run("decode", "in", "--from", "xtdb")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 16)


def test_limit_stops_there(run: Run, tmp_path: Path) -> None:
    """What lies behind the last change wanted is not read: not a reject, not counted."""
    done = run("decode", "broken.jsonl", "--from", "xtdb", "--limit", "1")
    assert (done.returncode, len(done.stdout.splitlines()), done.stderr) == (0, 1, "")
    done = run("convert", "broken.jsonl", "--from", "xtdb", "--to", "xtdb", "-O", "o", "--limit", "2", "--json")
    assert done.returncode == 3
    assert (json.loads(done.stderr)["records"], json.loads(done.stderr)["rejected"]) == (3, 1)
    assert run("decode", "broken.jsonl", "--from", "xtdb", "--limit", "0").stdout == ""


def test_without_a_file_of_rejects_their_reasons_are_shown(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text(
        "\n".join(
            ["{}", "x\x1b", "{}", *(f'{{"op":"\\u001b{n}","source":{{"tx_id":1,"table":"t"}}}}' for n in range(12))]
        )
    )
    before = sorted(path.name for path in tmp_path.iterdir())
    done = run("decode", "bad.jsonl", "--from", "xtdb")
    first, *reasons = done.stderr.splitlines()
    assert (done.returncode, first) == (3, "changeling: 15 of 15 records rejected; --rejects FILE keeps them")
    assert reasons[:2] == [
        "  4 records, such as bad.jsonl record 11: other reasons",
        "  2 records, such as bad.jsonl record 0: not an XTDB event: it has no 'op'",
    ]
    assert reasons[3] == r"  1 record, such as bad.jsonl record 3: unknown op '\x1b0': XTDB has c, u, d and r"
    assert len(reasons) == 11
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_rejects_of_an_earlier_run_are_kept(run: Run, tmp_path: Path) -> None:
    for _ in range(3):
        run("decode", "broken.jsonl", "--from", "xtdb", "--rejects", "rejects.jsonl")
    assert sorted(path.name for path in tmp_path.glob("rejects*")) == [
        "rejects.jsonl",
        "rejects.jsonl.1",
        "rejects.jsonl.2",
    ]


def test_a_file_of_which_the_rest_is_missing_does_not_pass_for_whole(run: Run) -> None:
    text = '[{"key":[1],"update":{"a":1}},\n{"key":[2],"update":{"a":1}},\n'
    done = run("decode", "-", "--from", "ydb-json", "--table", "t", "--key", "id", stdin=text)
    assert (done.returncode, len(done.stdout.splitlines())) == (3, 2)


def test_typed_values_and_one_that_does_not_fit(run: Run) -> None:
    columns = "_id:string,balance:decimal(10,2),age:int8,created_at:timestamptz"
    done = run("decode", "xtdb.jsonl", "--from", "xtdb", "--columns", columns, "--typed", "--limit", "1")
    line = json.loads(done.stdout)
    assert line["encoding"] == "canonical"
    assert line["after"]["balance"] == "999.95"
    assert line["after"]["created_at"] == "2023-12-25T10:15:30.123Z"
    done = run("decode", "xtdb.jsonl", "--from", "xtdb", "--columns", "name:int32", "--typed")
    assert done.returncode == 3


def test_pretty_is_for_people(run: Run) -> None:
    done = run("decode", "xtdb.jsonl", "--from", "xtdb", "--pretty", "--limit", "2")
    assert done.stdout.splitlines()[-3:] == [
        '    email: "john@example.com" -> "john.doe@example.com"',
        "    age: 30 -> 31",
        '    last_updated: "2023-12-26T14:30:15.456Z"',
    ]


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path, run: Run) -> None:
    import subprocess

    text = (tmp_path / "xtdb.jsonl").read_text()
    (tmp_path / "many.jsonl").write_text(text * 2000)
    program = f"'{Path(sys.executable).with_name('changeling')}' decode many.jsonl --from xtdb | head -n 1"
    done = subprocess.run(["bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")
