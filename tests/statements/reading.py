"""Golden records as their published documents show them, decoded to plain Python values."""

import json
from pathlib import Path
from typing import Any

import changeling
from changeling.model.line import lines
from tests.golden.test_golden import FOLDER, options_of, records_of


def decoded(case: str, **options: Any) -> list[dict[str, Any]]:
    """The changes of a golden case, `format/case`."""
    path: Path = FOLDER / case
    changes, rejects = changeling.decode(records_of(path), path.parent.name, **{**options_of(path, "read"), **options})
    assert rejects.num_rows == 0
    return [json.loads(line) for batch in changes.to_batches() for line in lines(batch)]


def converted(case: str, target: str, read: dict[str, Any] | None = None, **options: Any) -> list[dict[str, Any]]:
    """The records that a golden case becomes in another format."""
    path: Path = FOLDER / case
    given = {**options_of(path, "read"), **(read or {})}
    changes, _ = changeling.decode(records_of(path), path.parent.name, **given)
    records, rejects = changeling.encode(changes, target, **{"drop": "all", **options})
    assert rejects.num_rows == 0, rejects.to_pylist()
    return [json.loads(value) for value in records["value"].to_pylist() if value is not None]
