"""`pip install changeling`: small, without Java; each extra adds its part, and a verb that lacks one says which."""

import json
import os
import shutil
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from changeling.model import extras
from tests.docs.transcripts import REPOSITORY, is_printed, printed_commands
from tests.installed.environment import Environment, build_wheel, of_wheel, required
from tests.log.lakes import SMALL

EXTRAS = {"console", "kafka", "postgres", "spark"}
DATABASE = """
name: shop
warehouse: ./lake
sources:
  - {name: pg, type: postgres, url: "postgresql://127.0.0.1:1/shop", tables: ["public.*"]}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    return Environment(tmp_path_factory.mktemp("small"), wheel)


def test_files_are_read_and_written(small: Environment, tmp_path: Path) -> None:
    def printed(*arguments: str) -> str:
        done = small.run(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "xtdb" in printed("formats")
    assert printed("init").startswith("wrote shop.yaml\nwrote in/customers.jsonl\n")
    changes = [json.loads(line) for line in printed("decode", "in/customers.jsonl").splitlines()]
    assert [change["op"] for change in changes] == ["insert", "insert", "update", "insert", "delete"]
    assert "balance" in printed("decode", "in/customers.jsonl", "--pretty")
    printed("convert", "in/customers.jsonl", "--to", "debezium", "-O", "same.jsonl")
    records, copies = (
        [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        for name in ("in/customers.jsonl", "same.jsonl")
    )
    assert copies == records
    assert "changeling" in printed("completion", "bash")


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("run", "--once"), "pip install 'changeling[postgres]'"),
        (("verify",), "pip install 'changeling[spark]', and Java 17 or later"),
        (("remove", "--yes"), "pip install 'changeling[spark]', and Java 17 or later"),
        (("snapshot", "public.users"), "pip install 'changeling[postgres]'"),
    ],
)
def test_what_is_missing_is_named(small: Environment, tmp_path: Path, arguments: tuple[str, ...], extra: str) -> None:
    (tmp_path / "shop.yaml").write_text(DATABASE)
    done = small.run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(f", which is not installed: {extra}\n")
    assert done.stderr.count("\n") == 1


def test_the_page_says_what_is_printed(small: Environment, tmp_path: Path) -> None:
    assert small.run("init", cwd=tmp_path).returncode == 0
    page = (REPOSITORY / "docs" / "install.md").read_text(encoding="utf-8")
    ((command, output),) = printed_commands(page)
    done = small.run(*command.split()[1:], cwd=tmp_path)
    assert is_printed(done.stderr, str(output)), done.stderr
    assert (done.returncode, done.stdout) == (1, "")


def test_every_extra_is_named_by_its_modules(wheel: Path) -> None:
    assert set(extras.EXTRAS.values()) == EXTRAS
    owners = packages_distributions()
    for module, extra in extras.EXTRAS.items():
        (owner,) = set(owners[module])
        assert owner in {found.name for found in required(of_wheel(wheel), (extra,))}, module


def test_status_is_shown_without_the_database(small: Environment, tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(DATABASE)
    done = small.run("status", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (source,) = map(json.loads, done.stdout.splitlines())
    assert source["slot_error"] == "this needs psycopg, which is not installed: pip install 'changeling[postgres]'"


@pytest.mark.services
def test_spark_alone_runs_files_and_the_lake_is_read_without(small: Environment, wheel: Path, tmp_path: Path) -> None:
    spark = Environment(tmp_path / "spark", wheel, "spark")
    work = tmp_path / "work"
    work.mkdir()
    assert small.run("init", cwd=work).returncode == 0
    with (work / "in" / "customers.jsonl").open("a") as file:
        file.write("{}\n")
    with (work / "shop.yaml").open("a") as file:
        file.write(f"spark: {json.dumps(SMALL)}\n")
    java = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "JAVA_TOOL_OPTIONS") if name in os.environ}
    done = spark.run("run", "--once", cwd=work, **java)
    assert done.returncode == 3, done.stderr
    shutil.rmtree(work / "in")

    def lines(*arguments: str) -> list[dict[str, object]]:
        done = small.run(*arguments, "--json", cwd=work)
        assert done.returncode == 0, done.stderr
        # The same for people.
        assert small.run(*arguments, cwd=work).stdout
        return [json.loads(line) for line in done.stdout.splitlines()]

    ann = {"id": 1, "name": "Ann", "balance": "120.00", "since": "2026-01-05"}
    cem = {"id": 3, "name": "Cem", "balance": None, "since": "2026-01-12"}
    assert [row["accepted"] for row in lines("status")] == [5, None]
    assert lines("replica", "customers") == [ann, cem]
    then = lines("replica", "customers", "--as-of", "2026-01-14T13:30:00Z")
    assert then[0] == {**ann, "balance": "150.00"}
    assert [row["id"] for row in then] == [1, 2]
    for verb in (("replica", "custmers"), ("replica", "custmers", "--rebuild"), ("history", "custmers", "--key", "{}")):
        done = small.run(*verb, cwd=work)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.endswith("custmers; did you mean 'customers'?\n")
    assert [row["op"] for row in lines("history", "customers", "--key", '{"id": 1}')] == ["insert", "update"]
    assert [row["raw"] for row in lines("rejects")] == ["{}"]
