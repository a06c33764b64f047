"""The history of one row, as the command line shows it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from changeling.model.errors import UsageError
from tests.log.lakes import Shop
from tests.log.lakes import log_only as shop

GOLDEN = Path(__file__).parents[1] / "golden" / "xtdb"
CASES = ("seed-transaction", "seed-delete", "seed-update", "seed-create")
"""The seed's own events, the later ones first."""


@pytest.fixture(scope="module")
def users(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    made = shop(tmp_path_factory.mktemp("history"))
    for number, case in enumerate(CASES):
        made.write(f"{number}.json", *(GOLDEN / case / "input.jsonl").read_bytes().splitlines())
    made.write("again.json", *(GOLDEN / "seed-update" / "input.jsonl").read_bytes().splitlines())
    made.pipeline.run(once=True)
    return made


def test_002_22_one_entity_is_followed_by_its_key(users: Shop) -> None:
    program = "import sys; from changeling.cli import main; code = main(); assert 'pyspark' not in sys.modules; sys.exit(code)"
    call = [sys.executable, "-c", program, "history", "users", "--key", '{"_id": "user-123"}', "--json"]
    done = subprocess.run([*call, "--pipeline", str(users.file)], capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["op"], line["transaction"]["id"]) for line in found] == [
        ("insert", "12345"),
        ("update", "12346"),
        ("delete", "12347"),
        ("update", "12350"),
    ]
    assert found[0]["changed"] == list(found[0]["after"])
    assert found[1]["changed"] == ["email", "age", "last_updated"]
    assert found[2]["changed"] == list(found[1]["after"])
    assert found[3]["changed"] == list(found[3]["after"])
    assert set(found[0]) == {
        *("source", "table", "op", "key", "before", "after", "before_image", "after_image", "encoding", "position"),
        *("commit_time", "transaction", "schema_id", "origin", "meta", "changed"),
    }


def test_people_see_what_became_of_each_column(users: Shop) -> None:
    call = [sys.executable, "-m", "changeling", "history", "mydb.users", "--key", '{"_id": "user-123"}']
    done = subprocess.run([*call, "--pipeline", str(users.file)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[9:13] == [
        'update  mydb.users {"_id":"user-123"}  2023-12-26T12:50:15.456Z  tx 12346',
        '    email: "john@example.com" -> "john.doe@example.com"',
        "    age: 30 -> 31",
        '    last_updated: "2023-12-26T14:30:15.456Z"',
    ]


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ("mydb.user", '{"_id": "user-123"}', "the log has no table mydb.user; did you mean 'mydb.users'?"),
        ("users", '{"_id": 7}', 'no change of users has the key {"_id":7}; keys look like {"_id":"user-123"}'),
        ("users", "7", '--key 7: write a JSON object of the key columns, such as {"_id":"user-123"}'),
    ],
)
def test_what_is_not_there_is_reported(users: Shop, table: str, key: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        users.pipeline.history(table, key)
    assert str(refused.value) == message


def test_a_row_is_followed_to_another_key(spark: SparkSession, tmp_path: Path) -> None:
    source = {"name": "drop", "type": "files", "path": "in/*.json", "format": "arcion-json"}
    schema = {"table": "s.t", "columns": {"id": "string", "a": "string", "b": "string"}, "key": ["id"]}
    (tmp_path / "schemas.json").write_text(json.dumps(schema))
    made = shop(tmp_path, {**source, "schema_file": "schemas.json"})
    moved = {
        "tableName": {"namespace": {"catalog": None, "schema": "s", "hash": 0}, "name": "t", "hash": 0},
        "opType": "U",
        "cursor": '{"log":"bin.000001","position":2}',
        "before": {"id": "1"},
        "after": {"id": "2", "a": "y"},
        "exists": {"id": "3", "a": "1", "b": "0"},
        "operationcount": "{}",
    }
    made_first = {**moved, "opType": "I", "cursor": '{"log":"bin.000001","position":1}', "before": {}}
    made_first |= {"after": {"id": "1", "a": "x", "b": "z"}, "exists": {"id": "1", "a": "1", "b": "1"}}
    made.write("a.json", json.dumps(moved), json.dumps(made_first))
    made.pipeline.run(once=True)
    old, new = (made.pipeline.history("t", json.dumps({"id": key})) for key in ("1", "2"))
    assert [(moment.before, moment.after) for moment in old] == [
        (None, {"id": b'"1"', "a": b'"x"', "b": b'"z"'}),
        ({"id": b'"1"', "a": b'"x"', "b": b'"z"'}, None),
    ]
    assert [(moment.before, moment.after, moment.changed) for moment in new] == [
        ({"id": b'"1"', "a": b'"x"', "b": b'"z"'}, {"id": b'"2"', "a": b'"y"', "b": b'"z"'}, ["id", "a"])
    ]
