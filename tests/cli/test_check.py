"""`changeling check` where nothing but files is needed, and verbs that have nothing to work on."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

FILES = """\
name: shop
warehouse: ./lake
sources:
  - {name: drop, type: files, path: ./in/*.jsonl, format: xtdb%s}
"""


def findings(run: Run, shop: Path) -> tuple[int, dict[str, tuple[str, str]]]:
    done = run("check", "--json", JAVA_HOME=str(shop / "java"))
    assert done.stderr == ""
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, {line["check"]: (line["status"], line["text"]) for line in lines}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.yaml").write_text(FILES % "")
    (tmp_path / "in").mkdir()
    (tmp_path / "java" / "bin").mkdir(parents=True)
    (tmp_path / "java" / "bin" / "java").touch()
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="21.0.2"\n')
    return tmp_path


def test_a_line_a_check(run: Run, shop: Path) -> None:
    (shop / "xtdb.jsonl").rename(shop / "in" / "xtdb.jsonl")
    done = run("check", "shop.yaml", JAVA_HOME=str(shop / "java"))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1].startswith(f"✓ java         Java 21 at {shop}/java/bin/java")
    size = (shop / "in" / "xtdb.jsonl").stat().st_size
    assert [lines[0], *lines[2:]] == [
        "✓ file         shop.yaml: 1 source",
        "✓ lake         ./lake: the first run makes its tables",
        f"✓ source drop  1 file, {size:,} bytes; the first 8 can be read, changes of mydb.orders, mydb.products, mydb.users",
    ]
    assert not (shop / "lake").exists()


def test_what_a_run_would_reject_is_reported(run: Run, shop: Path) -> None:
    (shop / "in" / "a.jsonl").write_text((shop / "broken.jsonl").read_text())
    code, found = findings(run, shop)
    assert code == 3
    status, text = found["source drop"]
    assert status == "warning"
    assert "cannot be read\n" in text
    (shop / "shop.yaml").write_text(FILES % ", on_error: fail")
    code, found = findings(run, shop)
    assert (code, found["source drop"]) == (1, ("failed", text))


def test_records_of_another_dialect_are_recognised(run: Run, shop: Path) -> None:
    (shop / "in" / "a.jsonl").write_text((shop / "ydb.jsonl").read_text())
    code, found = findings(run, shop)
    assert code == 3
    assert found["source drop"][1].endswith("\nthey look like ydb-json: `format:` says so")


def test_files_that_do_not_exist_yet_are_no_error(run: Run, shop: Path) -> None:
    code, found = findings(run, shop)
    assert (code, found["source drop"][0]) == (0, "warning")
    assert found["source drop"][1].endswith("; files are read once they are there")


def test_the_places_of_feeds_are_looked_at(run: Run, shop: Path) -> None:
    feed = "{name: %s, table: users, with: {FORMAT: JSON, MODE: UPDATES}, topic: %s}"
    topics = {"a": "{type: table}", "b": "{type: files, path: ./out}", "c": "{type: files, path: ./shop.yaml/out}"}
    lines = "".join(f"  - {feed % pair}\n" for pair in topics.items())
    (shop / "shop.yaml").write_text(f"{FILES % ''}feeds:\n{lines}")
    code, found = findings(run, shop)
    assert code == 1
    assert [found[f"feed {name}"] for name in topics] == [
        ("ok", "a table of the lake, with the changes of users"),
        ("ok", "files in ./out"),
        ("failed", f"{shop}/shop.yaml is not a folder"),
    ]


def test_a_missing_java_and_a_wrong_warehouse_are_reported(run: Run, shop: Path) -> None:
    (shop / "lake").write_text("")
    (shop / "java" / "bin" / "java").unlink()
    code, found = findings(run, shop)
    assert code == 1
    assert found["java"][0] == "failed"
    assert found["java"][1].startswith("Java 17 or later is needed for Spark, and none was found: install one")
    assert found["lake"] == ("failed", f"{shop}/lake is not a folder")


def test_each_problem_of_the_file_is_a_line(run: Run, shop: Path) -> None:
    (shop / "shop.yaml").write_text(FILES.replace("xtdb", "xtbd") % ", tabel: t")
    done = run("check")
    assert done.returncode == 2
    assert done.stdout.splitlines() == [
        "✗ file  shop.yaml:4: sources[0].tabel: there is no such setting; did you mean 'table'?",
        "✗ file  shop.yaml:4: sources[0].format: there is no format 'xtbd'; did you mean 'xtdb'?",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("snapshot", "users"),
            "snapshot reads tables of a database again: the pipeline has no source of type postgres",
        ),
        (("run", "--resnapshot"), "--resnapshot snapshots the tables of databases again: the pipeline has no source"),
        (("verify",), "verify compares replicas with their database: the pipeline has no source of type postgres"),
        (("rejects", "--take-over"), "--take-over is for --replay"),
    ],
)
def test_verbs_that_would_do_nothing_say_so(run: Run, shop: Path, arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"changeling: {message}")
