"""`changeling init`: what it writes is read without an error, and runs."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from changeling.formats.options import ReadOptions
from changeling.model.table import TableName
from changeling.pipelines.definition import FilesSource
from changeling.pipelines.loading import find, load
from tests.cli.conftest import Run
from tests.log.commands import run_once
from tests.log.lakes import Shop

ROWS = [
    {"id": 1, "name": "Ann", "balance": "120.00", "since": "2026-01-05"},
    {"id": 3, "name": "Cem", "balance": None, "since": "2026-01-12"},
]


def test_the_pipeline_is_valid_and_knows_its_records(run: Run, tmp_path: Path) -> None:
    done = run("init", "new shop")
    assert done.returncode == 0
    assert done.stdout.splitlines()[:2] == ["wrote new shop/shop.yaml", "wrote new shop/in/customers.jsonl"]
    assert "  cd 'new shop'" in done.stdout.splitlines()
    loaded = load(tmp_path / "new shop" / "shop.yaml")
    (source,) = loaded.definition.sources
    assert isinstance(source, FilesSource)
    options: ReadOptions = loaded.read_options(source)
    schema = options.schema_of(TableName("shop", "public", "customers"))
    assert schema is not None
    assert [column.type for column in schema.columns] == ["int32", "string", "decimal(10,2)", "date"]
    columns = ",".join(f"{column.name}:{column.type}" for column in schema.columns)
    done = run("decode", "new shop/in/customers.jsonl", "--typed", "--key", "id", "--columns", columns)
    assert (done.returncode, done.stderr) == (0, f"changeling: read as {source.format}\n")
    changes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(change["op"], change["key"]) for change in changes] == [
        ("insert", {"id": 1}),
        ("insert", {"id": 2}),
        ("update", {"id": 1}),
        ("insert", {"id": 3}),
        ("delete", {"id": 2}),
    ]
    assert [changes[2]["after"], changes[3]["after"]] == ROWS


def test_nothing_is_overwritten(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "customers.jsonl").write_text("mine")
    done = run("init")
    assert done.returncode == 2
    assert "in/customers.jsonl exists already: nothing was written" in done.stderr
    assert not (tmp_path / "shop.yaml").exists()
    assert (tmp_path / "in" / "customers.jsonl").read_text() == "mine"


def test_it_runs_at_once(spark: SparkSession, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("init", "begun").returncode == 0
    monkeypatch.chdir(tmp_path / "begun")
    assert find() == Path("shop.yaml")
    assert run_once(Shop(tmp_path / "begun")) == 0
    shown = run("replica", "customers", "--pipeline", "begun/shop.yaml", "--json")
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS
