"""The page on pipelines is true: its example loads, its errors are what loading says, and no setting is left out."""

import re
from pathlib import Path

import msgspec
import pytest

from changeling.pipelines import definition
from changeling.pipelines.json_schema import FILE
from tests.pipelines.pipeline_files import loaded, refused

PAGE = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text(encoding="utf-8")
EXAMPLE = PAGE.split("```yaml\n")[1].split("```")[0]
ERRORS = PAGE.split("## Errors")[1].split("```\n")[1].split("```")[0].splitlines()
MISTAKES = [
    ("files", "fils"),
    ("ydb-json", "ydb-jsn"),
    ("table:", "tabel:"),
    ("[id]", "id"),
    ("${KAFKA}", "${KAFKA}"),
    ("source: drop", "source: drp"),
]


def test_the_example_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA", "broker:9092")
    monkeypatch.setenv("KAFKA_LOGIN", "secret")
    found = loaded(tmp_path, EXAMPLE)
    assert [source.name for source in found.definition.sources] == ["drop", "bus"]


@pytest.mark.parametrize(("mistake", "error"), [*zip(MISTAKES, ERRORS, strict=True)])
def test_the_errors_are_those_of_the_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: tuple[str, str], error: str
) -> None:
    monkeypatch.setenv("KAFKA_LOGIN", "secret")
    monkeypatch.setenv("KAFKA", "broker:9092")
    if "KAFKA" in error:
        monkeypatch.delenv("KAFKA")
    assert refused(tmp_path, EXAMPLE.replace(*mistake, 1)) == error


def test_no_setting_is_left_out() -> None:
    parts = msgspec.json.decode(FILE.read_bytes())["$defs"]
    settings = {field.encode_name for name in parts for field in msgspec.structs.fields(getattr(definition, name))} | {
        "type"
    }
    documented = set(re.findall(r"`(\w+)`", PAGE))
    assert settings - documented == set()
