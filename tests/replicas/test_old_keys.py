"""Which changes move a row: many at once say what each says alone."""

import numpy as np
import pyarrow as pa
import pytest

from changeling.model.table import Column, TableSchema
from changeling.replicas import old_keys
from changeling.replicas.keys import KeyReader
from changeling.replicas.shape import columns_of

COLUMNS = columns_of([], TableSchema((Column("id", "string"), Column("note", "string")), ("id",)), "evolve", ("id",))
ROWS = [
    ('{"id":"a"}', '{"id":"a","note":"x"}', None),
    ('{"id":"a"}', '{"id":"b","note":"x"}', '["b"]'),
    ('{"id":"a"}', '{"note":"x","id":"b"}', '["b"]'),
    ('{"id":"a"}', '{ "id" : "a" }', None),
    ('{"id":"a"}', '{"id":"a"}', None),
    ('{"id":"a"}', '{"id":"aa","note":"x"}', '["aa"]'),
    ('{"id":"a"}', '{"note":"id"}', None),
    ('{"id":"a"}', None, None),
    (None, '{"id":"a","note":"x"}', None),
]
TWICE = [
    ('{"id":"a"}', '{"id":"a","note":"x","id":"b"}', '["b"]'),
    ('{"id":"a"}', '{"id":"a","note":"x","\\u0069d":"b"}', '["b"]'),
    ('{"id":"a"}', '{"id":"a","note":{"id":"b"}}', None),
    ('{"id":"a"}', '{"id":"a","note":"\\u0069"}', None),
]


def moved(rows: list[tuple[str | None, str | None, str | None]]) -> dict[int, str]:
    keys, befores = (pa.array([row[place] for row in rows], pa.string()) for place in (0, 1))
    batch = pa.record_batch([keys, befores], names=["key", "before"])
    reader = KeyReader(COLUMNS, COLUMNS.shape(), "canonical", None)
    now = pa.array([None if key is None else reader.one(key) for key, _, _ in rows], pa.string())
    return old_keys.old_keys(batch, np.ones(len(rows), np.bool_), now, reader)


@pytest.mark.parametrize("more", [[], *([row] for row in TWICE), TWICE])
@pytest.mark.parametrize("piece", [1, 7, 1_000])
def test_many_changes_say_what_each_says(
    more: list[tuple[str | None, str | None, str | None]], piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_keys, "_PIECE", piece)
    rows = [*ROWS, *more, *ROWS]
    expected = {place: old for place, (_, _, old) in enumerate(rows) if old is not None}
    assert moved(rows) == expected
    for row in rows:
        assert moved([row]) == ({} if row[2] is None else {0: row[2]})
    unmoved = [row for row in rows if row[2] is None]
    assert moved(unmoved) == {}
