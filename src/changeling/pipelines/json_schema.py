"""The JSON schema of pipeline files, for editors. `python -m changeling.pipelines.json_schema` writes it again.

It lacks what only loading can check: the names of formats, options and types, and whether parts agree.
"""

import ast
import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

from changeling.pipelines import definition

FILE = Path(__file__).with_name("pipeline.schema.json")


def generated() -> str:
    """The text of the schema, from the Structs of a pipeline and their docstrings."""
    schema = msgspec.json.schema(definition.Definition)
    notes = _notes()
    for name, part in schema["$defs"].items():
        kind = getattr(definition, name)
        for member in msgspec.structs.fields(kind):
            _describe(part["properties"][member.encode_name], _note(kind, member.name, notes))
        part["title"] = part["description"].split(". ")[0].removesuffix(".")
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A pipeline of Changeling", **schema}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _describe(found: dict[str, Any], note: str) -> None:
    meaning = found.pop("description", None)
    found["description"] = f"{note} Must be {meaning}." if meaning else note
    if "pattern" in found:
        found["pattern"] += r"|\$\{"


def _note(kind: type, member: str, notes: dict[tuple[str, str], str]) -> str:
    return next(notes[base.__name__, member] for base in kind.__mro__ if (base.__name__, member) in notes)


def _notes() -> dict[tuple[str, str], str]:
    """The text below each member, by class and member: Python keeps no such text at run time."""
    found = {}
    for kind in ast.parse(inspect.getsource(definition)).body:
        if not isinstance(kind, ast.ClassDef):
            continue
        for member, below in zip(kind.body, kind.body[1:], strict=False):
            if (
                isinstance(member, ast.AnnAssign)
                and isinstance(member.target, ast.Name)
                and isinstance(below, ast.Expr)
            ):
                found[kind.name, member.target.id] = str(ast.literal_eval(below.value))
    return found


if __name__ == "__main__":
    FILE.write_text(generated(), encoding="utf-8")
