"""A pipeline file that changes during a run: every difference is named, as applied or as left."""

import json
from pathlib import Path
from typing import Any

import pytest

from changeling.model.errors import UsageError
from changeling.pipelines.file_changes import FileChange, WatchedFile
from changeling.pipelines.loading import load

SCHEMA = {"table": "users", "columns": {"id": "int64"}, "key": ["id"]}
BEFORE: dict[str, Any] = {
    "name": "shop",
    "warehouse": "lake",
    "sources": [
        {"name": "drop", "type": "files", "path": "in", "format": "xtdb", "schema_file": "schemas.json"},
        {"name": "pg", "type": "postgres", "url": "postgresql://me:sesame@db/shop", "tables": ["public.*"]},
    ],
    "tables": [{"name": "users", "mode": "history"}, {"name": "orders", "mode": "append"}],
    "feeds": [{"name": "f", "table": "users", "with": {"FORMAT": "JSON", "MODE": "UPDATES"}}],
    "targets": [{"name": "copy", "type": "postgres", "url": "postgresql://db/copy", "tables": ["users"]}],
}
AFTER: dict[str, Any] = {
    "name": "shop",
    "warehouse": "elsewhere",
    "sources": [
        {"name": "drop", "type": "files", "path": "in2", "format": "xtdb", "schema_file": "schemas.json"},
        {"name": "more", "type": "files", "path": "more", "format": "xtdb"},
    ],
    "tables": [{"name": "users", "mode": "merge"}, {"name": "orders", "mode": "append"}],
    "feeds": [{"name": "g", "table": "users", "with": {"FORMAT": "JSON", "MODE": "UPDATES"}}],
    "targets": [],
    "retention": "7d",
    "spark": {"spark.sql.shuffle.partitions": 2},
}


def next_change(watched: WatchedFile) -> FileChange | None:
    # A file that has just changed may still be written: it is read when a second look finds it the same.
    assert watched.change() is None
    return watched.change()


def test_every_difference_is_named(tmp_path: Path) -> None:
    file, schemas = tmp_path / "shop.yaml", tmp_path / "schemas.json"
    schemas.write_text(json.dumps(SCHEMA))
    file.write_text(json.dumps(BEFORE))
    before = load(file)
    watched = WatchedFile(before)
    assert next_change(watched) is None

    file.write_text(json.dumps(AFTER))
    change = next_change(watched)
    assert change is not None
    assert change.taken == [
        "source more (new)",
        "source drop (changed)",
        "source pg (no longer in the file; its slot stays on the server)",
        "feed g (new)",
        "feed f (no longer in the file)",
        "target copy (no longer in the file)",
        "rules of users",
        "retention 7d",
    ]
    assert change.left == [
        "warehouse (a run begins with it: stop it and run again)",
        "spark (a run begins with it: stop it and run again)",
    ]
    assert (change.loaded.definition.warehouse, change.loaded.definition.spark) == ("lake", {})
    assert change.loaded.definition.sources == load(file).definition.sources
    # What the former file had may still be in errors.
    assert change.loaded.redacted("sesame") == "***"
    assert watched.change() is None
    watched.applied(change)
    assert next_change(watched) is None

    schemas.write_text(json.dumps({**SCHEMA, "key": []}))
    change = next_change(watched)
    assert change is not None
    assert change.taken == ["schema file schemas.json"]

    file.write_text("name: shop\n")
    assert watched.change() is None
    with pytest.raises(UsageError, match="warehouse"):
        watched.change()
    assert watched.change() is None
    file.unlink()
    assert watched.change() is None
    with pytest.raises(UsageError, match="No such file"):
        watched.change()
    file.write_text(json.dumps(AFTER))
    change = next_change(watched)
    assert change is not None
    assert change.taken == []
