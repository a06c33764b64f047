"""Events that are left out before a shuffle change nothing: neither rows nor the number of repetitions, however tasks share changes."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from changeling.iceberg.parquet_files import WriteSpec
from changeling.log.log_tables import QUARANTINE
from changeling.model.change import Change
from changeling.model.operation import Image, Operation
from changeling.model.position import encode
from changeling.replicas import superseded_events
from changeling.replicas.fold_job import fold
from changeling.replicas.fold_table import FoldTable
from changeling.replicas.fold_task import OUTCOME, TableOutcome
from changeling.replicas.logged_changes import Changes
from changeling.replicas.row_events import sorted_events
from changeling.replicas.shape import columns_of
from changeling.replicas.superseded_events import PositionSpan, is_marker, overlap
from tests.replicas.test_fold import COLUMNS, Database, Rows
from tests.replicas.test_kernels import SCHEMA, TABLE, changes_batch, once, shown

Kernel = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
FIELDS = [("id", pa.int64()), *((name, pa.string()) for name in COLUMNS)]


@dataclass
class Tasks:
    """Changes that several tasks read, each of them several batches."""

    batches: list[list[pa.RecordBatch]]
    shuffled: list[int] = field(default_factory=list)
    """How many events each run handed over."""

    def folded(self, to_events: Kernel, fold_events: Kernel, one_bucket: Sequence[int] = ()) -> pa.Table:
        events = pa.Table.from_batches([event for task in self.batches for event in to_events(task)])
        self.shuffled.append(sum(not is_marker(number) for number in events.column("table").to_pylist()))
        return pa.Table.from_batches(list(fold_events(sorted_events(events).to_batches(11))), OUTCOME)


def tasks_of(changes: list[Change], size: int) -> Tasks:
    """Changes in the order of arrival, so many a task."""
    whole = changes_batch(changes)
    parts = [whole.slice(start, size) for start in range(0, whole.num_rows, size)]
    return Tasks([[part.slice(place, 5) for place in range(0, part.num_rows, 5)] for part in parts])


def result(tasks: Tasks, folder: Path, *, drops_superseded: bool) -> tuple[Rows, TableOutcome, FoldTable]:
    columns = columns_of([], SCHEMA, "evolve", ("id",))
    table = FoldTable(
        "s", TABLE, columns, columns.shape(), stored=False, staged=False, drops_superseded=drops_superseded
    )
    target = WriteSpec(str(folder / "rows"), pa.schema(FIELDS))
    quarantine = WriteSpec(str(folder / "asides"), QUARANTINE.columns)

    def widened(table: FoldTable, kinds: dict[str, list[str]]) -> FoldTable:
        raise AssertionError("every column is declared")

    ((folded, outcome),) = fold(cast(Changes, tasks), [table], lambda one: (one, target), quarantine, 1, widened)
    rows = [row for file in outcome.files for row in pq.read_table(file.path).to_pylist()]
    return {row["id"]: row for row in rows}, outcome, folded


def history(made: random.Random, length: int) -> list[Change]:
    database = Database(made)
    while len(database.events) < length:
        database.step()
    return [event for event in database.events if event.op is not Operation.TRUNCATE]


def placed(events: list[Change], places: Iterable[int]) -> list[Change]:
    return [
        msgspec.structs.replace(event, position=encode(7, place)) for event, place in zip(events, places, strict=True)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_changes_in_order_are_reduced(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(superseded_events, "MAX_EVENTS", 40)
    events = history(random.Random(seed), 200)
    changes = placed(events, range(len(events)))
    expected, ties = once(changes)
    tasks = tasks_of(changes, 70)
    rows, outcome, folded = result(tasks, tmp_path, drops_superseded=True)
    assert (rows, outcome.ties, folded.drops_superseded) == (shown(expected), ties, True)
    every = tasks_of(changes, 70)
    assert result(every, tmp_path / "every", drops_superseded=False)[0] == rows
    assert tasks.shuffled[0] < every.shuffled[0]


@pytest.mark.parametrize("seed", range(40))
def test_repetitions_are_counted_as_before(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(superseded_events, "MAX_EVENTS", 40)
    made = random.Random(seed)
    events = history(made, 120)
    place, places = 0, []
    for _ in events:
        place += made.random() < 0.6
        places.append(place)
    changes = placed(events, places)
    arrived = [*changes, *made.choices(changes, k=30)]
    if seed % 2:
        # Redelivered at once: a part has all changes of most positions.
        arrived.sort(key=lambda change: change.position or "")
    expected, ties = once(arrived)
    rows, outcome, _ = result(tasks_of(arrived, made.choice((20, 60, 200))), tmp_path, drops_superseded=True)
    assert (rows, outcome.ties) == (shown(expected), ties)


def test_a_later_change_at_one_position_decides_wherever_it_arrives(tmp_path: Path) -> None:
    """The repetition in the second task must meet the change that it repeats, though another one decided after it."""
    database = Database(random.Random(1))
    first, second = ({"id": 1, **dict.fromkeys(COLUMNS), COLUMNS[0]: value} for value in (1, 2))
    database.emit(Operation.INSERT, 1, after=first)
    database.emit(Operation.REPLACE, 1, after=second)
    one, other = placed(database.events, (3, 3))
    rows, outcome, folded = result(tasks_of([one, other, one], 2), tmp_path, drops_superseded=True)
    assert (rows, outcome.ties) == (shown({1: second}), 1)
    assert not folded.drops_superseded


def test_what_shares_its_position_is_not_left_out(tmp_path: Path) -> None:
    """A repetition of a change after which another one came counts, whatever comes later."""
    database = Database(random.Random(1))
    for value in (1, 2, 3):
        database.emit(Operation.REPLACE, 1, after={"id": 1, **dict.fromkeys(COLUMNS), COLUMNS[0]: value})
    one, other, last = placed(database.events, (3, 3, 4))
    tasks = tasks_of([one, other, one, last], 4)
    rows, outcome, folded = result(tasks, tmp_path, drops_superseded=True)
    assert rows == shown({1: {"id": 1, **dict.fromkeys(COLUMNS), COLUMNS[0]: 3}})
    assert (outcome.ties, folded.drops_superseded, tasks.shuffled) == (1, True, [4])


def test_what_moves_a_row_is_not_left_out(tmp_path: Path) -> None:
    """Another row is written to the key that it moved to: the key that it left has none."""
    database = Database(random.Random(1))
    row = {"id": 1, **dict.fromkeys(COLUMNS)}
    database.emit(Operation.INSERT, 1, after=row)
    database.emit(Operation.UPDATE, 2, before=row, after={"id": 2}, image=Image.PARTIAL)
    database.emit(Operation.REPLACE, 2, after={**row, "id": 2, COLUMNS[0]: 5})
    rows, _, folded = result(tasks_of(placed(database.events, (1, 2, 3)), 3), tmp_path, drops_superseded=True)
    assert rows == shown({2: {**row, "id": 2, COLUMNS[0]: 5}})
    assert folded.drops_superseded


def test_what_another_row_is_based_on_is_not_left_out(tmp_path: Path) -> None:
    """A row moves with its values to another key before the key that it leaves is written again."""
    database = Database(random.Random(1))
    row = {"id": 1, **dict.fromkeys(COLUMNS), COLUMNS[0]: 7}
    database.emit(Operation.INSERT, 1, after=row)
    database.emit(Operation.UPDATE, 2, before=row, after={"id": 2}, image=Image.PARTIAL)
    database.emit(Operation.REPLACE, 1, after={**row, COLUMNS[0]: 5})
    rows, _, folded = result(tasks_of(placed(database.events, (1, 2, 3)), 3), tmp_path, drops_superseded=True)
    assert rows == shown({1: {**row, COLUMNS[0]: 5}, 2: {**row, "id": 2}})
    assert folded.drops_superseded


@pytest.mark.parametrize(
    ("spans", "found"),
    [
        ([], False),
        ([("a", "1", "5"), ("a", "2", "9")], False),
        ([("a", "1", "5"), ("b", "6", "9"), ("a", "91", "92")], False),
        ([("a", "1", "5"), ("b", "5", "9")], True),
        ([("b", "4", "4"), ("a", "1", "9"), ("a", "2", "3")], True),
    ],
)
def test_ranges_overlap_where_two_parts_may_share_a_position(spans: list[Any], found: bool) -> None:
    assert overlap([PositionSpan(*span) for span in spans]) == found
