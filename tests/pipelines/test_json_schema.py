"""The JSON schema that editors check pipeline files with."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from changeling.pipelines import json_schema
from tests.pipelines.pipeline_files import HEAD, USERS, loaded, refused
from tests.pipelines.test_loading import WHOLE

SCHEMA = json_schema.FILE.read_text(encoding="utf-8")


def problems(text: str) -> list[str]:
    checker = jsonschema.Draft202012Validator(yaml.safe_load(SCHEMA))
    return [error.message for error in checker.iter_errors(yaml.safe_load(text))]


def test_the_shipped_schema_is_up_to_date() -> None:
    assert json_schema.generated() == SCHEMA, "run python -m changeling.pipelines.json_schema"


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(yaml.safe_load(SCHEMA))


def test_every_member_is_described() -> None:
    parts: dict[str, Any] = yaml.safe_load(SCHEMA)["$defs"]
    bare = [
        f"{name}.{member}"
        for name, part in parts.items()
        for member, found in part["properties"].items()
        if member != "type" and not found.get("description")
    ]
    assert bare == []
    assert parts["FilesSource"]["title"] == "Files of one dialect"
    assert parts["Definition"]["properties"]["settle"]["description"] == (
        "When a transaction without an end mark counts as complete. Must be a number and ms, s, m, h or d, as in 10s."
    )


EXAMPLES = {
    "the whole": WHOLE,
    "the least": USERS,
    "a variable for a name": USERS.replace("shop", '"${NAME}"') + 'settle: "${SETTLE}"\n',
    "settings": USERS + "spark: {a: 1, b: 1.5, c: true, d: x}\ncatalog: {type: rest}\n",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for variable, value in {"PG_URL": "x", "KAFKA": "h:1", "NAME": "shop", "SETTLE": "5s"}.items():
        monkeypatch.setenv(variable, value)
    assert problems(EXAMPLES[name]) == []
    assert loaded(tmp_path, EXAMPLES[name]).definition.name == "shop"


WRONG = {
    "no warehouse": USERS.replace("warehouse: lake\n", ""),
    "no sources": "name: shop\nwarehouse: lake\nsources: []\n",
    "an unknown member": USERS + "tabels: []\n",
    "an unknown member of a source": USERS.replace("key: [id]", "keys: [id]"),
    "a member of another type of source": USERS.replace("key: [id]", "key: [id], servers: h"),
    "an unknown type": USERS.replace("files", "fils"),
    "no type": USERS.replace("type: files, ", ""),
    "a name that is none": USERS.replace("shop", "my shop"),
    "a key that is no list": USERS.replace("[id]", "id"),
    "a number for a text": USERS.replace("users", "5"),
    "a mode that is none": USERS + "tables: [{name: users, mode: merg}]\n",
    "a schema that is none": USERS + "tables: [{name: users, schema: fial}]\n",
    "a span that is none": USERS + "settle: 10\n",
    "a list for a setting": USERS + "spark: {a: [b]}\n",
    "no topics": HEAD + "  - {name: a, type: kafka, servers: h, topics: [], format: xtdb}\n",
    "no records at all": USERS.replace("key: [id]", "key: [id], batch_files: 0"),
    "a feed without a table": USERS + "feeds: [{name: f}]\n",
    "a topic that is none": USERS + "feeds: [{name: f, table: t, topic: {type: fils}}]\n",
    "a target without a type": USERS + "targets: [{name: f, url: x, tables: [t]}]\n",
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_are_not(tmp_path: Path, name: str) -> None:
    assert problems(WRONG[name]) != []
    assert refused(tmp_path, WRONG[name]).startswith("shop.yaml:")
