"""The JSON schema of pipeline files, for editors. `python -m changeling.pipelines.json_schema` writes it again.

It lacks what only loading can check: the names of formats, options and types, and whether parts agree.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from changeling.model.member_notes import member_notes
from changeling.pipelines import definition

FILE = Path(__file__).with_name("pipeline.schema.json")


def generated() -> str:
    """The text of the schema, from the Structs of a pipeline and their docstrings."""
    schema = msgspec.json.schema(definition.Definition)
    for name, part in schema["$defs"].items():
        kind = getattr(definition, name)
        notes = member_notes(kind)
        for member in msgspec.structs.fields(kind):
            _describe(part["properties"][member.encode_name], notes[member.name])
        part["title"] = part["description"].split(". ")[0].removesuffix(".")
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A pipeline of Changeling", **schema}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _describe(found: dict[str, Any], note: str) -> None:
    meaning = found.pop("description", None)
    found["description"] = f"{note} Must be {meaning}." if meaning else note
    if "pattern" in found:
        found["pattern"] += r"|\$\{"


if __name__ == "__main__":
    FILE.write_text(generated(), encoding="utf-8")
