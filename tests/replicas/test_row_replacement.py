"""Rows of folds against stored rows: files, bounds and vectors are real, what must come of it is said by dictionaries."""

import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from changeling.iceberg.data_files import DataFile
from changeling.replicas import staged_rows as staged
from changeling.replicas.row_replacement import StoredSnapshot, completed, recounted, scan_keyed, vectors
from changeling.replicas.shape import ReplicaColumn, Shape
from tests.iceberg.stored import data_file, folder, live_rows, numbered

SHAPE = Shape(
    (ReplicaColumn("1", "id", "int64"), ReplicaColumn("2", "a", "string"), ReplicaColumn("3", "b", "int64")), ("1",)
)
COLUMNS = numbered(pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.int64())]))
Row = tuple[Any, ...]


class Bench:
    """Random stored rows in several files, some of them deleted."""

    def __init__(self, root: Path, seed: int, keyed: bool = True) -> None:
        self.random = random.Random(seed)
        self.root = folder(root)
        self.rows: dict[int, Row] = {}
        self.files: list[DataFile] = []
        for start in range(0, 60, 20):
            rows: list[Row] = []
            for key in range(start, start + 20):
                for _ in range(1 if keyed else self.random.randint(1, 3)):
                    rows.append(self.row(key))
            gone = np.array(sorted(self.random.sample(range(len(rows)), 6)), np.int64)
            table = pa.table([pa.array(column) for column in zip(*rows, strict=True)], schema=COLUMNS)
            self.files.append(data_file(self.root, table, gone if start else None))
        self.rows = {row[0]: row for row in live_rows(self.files, COLUMNS)}

    def row(self, key: int) -> Row:
        return key, self.random.choice([None, "x", "y"]), self.random.choice([None, 1, 2])

    @property
    def stored(self) -> StoredSnapshot:
        return StoredSnapshot(tuple(self.files), COLUMNS, (0,))

    def after(self, deleted: dict[str, np.ndarray], coming: pa.Table) -> list[Row]:
        """All rows when the commit is done."""
        made = {file.path: vector for file, vector in vectors(str(self.root), self.files, deleted)}
        now = [msgspec.structs.replace(file, vector=made.get(file.path, file.vector)) for file in self.files]
        return live_rows(now, COLUMNS) + [tuple(row.values()) for row in coming.to_pylist()]


def fold_rows(entries: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(entries, schema=staged.staged_layout(SHAPE))


@pytest.mark.parametrize("seed", range(8))
def test_rows_with_a_key_are_replaced_completed_moved_and_deleted(tmp_path: Path, seed: int) -> None:
    stored, base = Bench(tmp_path, seed), Bench(tmp_path, seed + 100)
    expected = dict(stored.rows)
    entries: list[dict[str, Any]] = []
    keys = stored.random.sample(range(80), 40)
    for key in keys:
        kind = stored.random.choice(["whole", "gone", "patch", "touch", "move"])
        refolded = stored.random.random() < 0.3
        below = (base if refolded else stored).rows
        entry: dict[str, Any] = {
            "effect": kind,
            "c0": key,
            "b0": key,
            "refolded": refolded,
            "mentioned": [True, True, False],
        }
        if kind == "whole":
            row = stored.row(key)
            entry |= {"c1": row[1], "c2": row[2], "mentioned": None}
            expected[key] = row
        elif kind == "gone":
            expected.pop(key, None)
        elif kind in ("patch", "move"):
            origin = stored.random.choice(range(80)) if kind == "move" else key
            value = stored.random.choice([None, "patched"])
            entry |= {"effect": "patch", "c1": value, "b0": origin}
            expected[key] = (key, value, below[origin][2] if origin in below else None)
        entries.append(entry)
    rows = fold_rows(entries)
    scan = scan_keyed(rows, stored.stored, base.stored)
    assert sorted(stored.after(scan.deleted, completed(rows, scan, COLUMNS, (0,))), key=repr) == sorted(
        expected.values(), key=repr
    )


@pytest.mark.parametrize("seed", range(4))
def test_rows_without_a_key_come_and_go_by_their_content(tmp_path: Path, seed: int) -> None:
    stored, base = Bench(tmp_path, seed, keyed=False), Bench(tmp_path, seed + 100, keyed=False)
    held, below = live_rows(stored.files, COLUMNS), live_rows(base.files, COLUMNS)
    expected = list(held)
    entries = []
    contents = list(dict.fromkeys([*held[:20], *below[:10], stored.row(70)]))
    for content in contents:
        count, refolded = stored.random.randint(-3, 3), stored.random.random() < 0.4
        wanted = max(0, (below if refolded else held).count(content) + count)
        expected = [row for row in expected if row != content] + [content] * wanted
        entries.append(
            {
                **dict(zip(("c0", "c1", "c2"), content, strict=True)),
                "count": count,
                "refolded": refolded,
                "effect": "whole",
            }
        )
    rows = fold_rows(entries)
    bare = StoredSnapshot(tuple(stored.files), COLUMNS)
    scan, coming = recounted(rows, bare, StoredSnapshot(tuple(base.files), COLUMNS))
    assert sorted(stored.after(scan.deleted, coming), key=repr) == sorted(expected, key=repr)


def test_files_whose_bounds_exclude_every_key_are_not_read(tmp_path: Path) -> None:
    stored = Bench(tmp_path, 1)
    rows = fold_rows([{"effect": "gone", "c0": 25, "b0": 25}])
    for number in (0, 2):
        Path(stored.files[number].path).unlink()
    scan = scan_keyed(rows, stored.stored)
    assert list(scan.deleted) in ([], [stored.files[1].path])
