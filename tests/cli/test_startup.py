"""Commands start quickly: none of them imports what it does not need, and Spark finds what was left out for its sake."""

import subprocess
import sys
from pathlib import Path

import pytest

FILE = """
name: shop
warehouse: ./lake
sources:
  - {name: pg, type: postgres, url: "postgresql://127.0.0.1:1/shop", tables: ["public.*"]}
"""
HEAVY = {"msgspec", "numpy", "pandas", "psycopg", "pyarrow", "pyiceberg", "pyspark", "rich", "sqlalchemy", "yaml"}
_CALL = """
import sys
from changeling.cli.main import main
try:
    code = main(sys.argv[1:])
except SystemExit as ended:
    code = ended.code
print("ended", code, *sys.modules)
"""
_SPARK = """
import gc
from changeling.cli.process import start_quickly
before = gc.get_threshold()
start_quickly()
start_quickly()
import pyarrow
pyarrow.array([1.5], from_pandas=True)
try:
    import pandas
except ModuleNotFoundError:
    print("hidden", gc.get_threshold() == before)
import pyspark.sql, pandas
print("found", gc.get_threshold() == before)
"""


def printed(folder: Path, program: str, *arguments: str) -> str:
    call = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "needed"),
    [
        (("--help",), "0", set()),
        (("run", "--help"), "0", set()),
        (("decode", "in/customers.jsonl", "--from", "debezium"), "0", {"msgspec", "numpy", "pyarrow"}),
        (("status", "--json"), "0", HEAVY - {"pandas", "pyspark", "rich", "sqlalchemy"}),
        # Servers are looked at before anything that reads or writes the lake is loaded.
        (("run", "--once"), "1", HEAVY - {"pandas", "pyiceberg", "pyspark", "sqlalchemy"}),
    ],
)
def test_a_command_imports_no_more_than_it_needs(
    tmp_path: Path, arguments: tuple[str, ...], code: str, needed: set[str]
) -> None:
    (tmp_path / "shop.yaml").write_text(FILE)
    starter = Path(__file__).parents[2] / "src" / "changeling" / "cli" / "starter"
    (tmp_path / "in").symlink_to(starter)
    _, ended, *modules = printed(tmp_path, _CALL, *arguments).splitlines()[-1].split()
    assert (ended, HEAVY & set(modules) - needed) == (code, set())


def test_spark_finds_pandas_and_collects_garbage_as_usual(tmp_path: Path) -> None:
    assert printed(tmp_path, _SPARK).splitlines() == ["hidden False", "found True"]
