"""The fold against a model that is a dictionary and nothing else, on random histories."""

import json
import random
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.operation import Image, Operation
from changeling.model.position import encode
from changeling.replicas.fold import Cell, Fold, FoldedRow, Repetitions, RowEvent
from changeling.replicas.row_effect import effect, old_key

COLUMNS = ("a", "b", "c")
Rows = dict[int, dict[str, Any]]


@dataclass
class Database:
    """Makes a history, and keeps the rows that it ends with."""

    random: random.Random
    rows: Rows = field(default_factory=dict)
    events: list[Change] = field(default_factory=list)
    states: list[Rows] = field(default_factory=list)

    def step(self) -> None:
        number = self.random.randrange(4)
        row = self.rows.get(number)
        choices = (
            ["insert", "upsert", "replace"]
            if row is None
            else ["update", "patch", "move", "delete", "replace", "stale"]
        )
        if self.random.random() < 0.05:
            choices = ["truncate"]
        getattr(self, self.random.choice(choices))(number, row)
        self.states.append({key: dict(found) for key, found in self.rows.items()})

    def insert(self, number: int, row: Any) -> None:
        self.rows[number] = {"id": number, **self.values(COLUMNS)}
        self.emit(Operation.INSERT, number, after=self.rows[number])

    def upsert(self, number: int, row: Any) -> None:
        written = {"id": number, **self.values(self.some())}
        self.rows[number] = {**(row or {}), **written}
        self.emit(Operation.UPSERT, number, after=written, image=Image.PARTIAL)

    def replace(self, number: int, row: Any) -> None:
        self.rows[number] = {"id": number, **self.values(self.some())}
        self.emit(Operation.REPLACE, number, after=self.rows[number], image=Image.PARTIAL)

    def update(self, number: int, row: Any) -> None:
        before = dict(row)
        self.rows[number] = {"id": number, **self.values(COLUMNS)}
        self.emit(Operation.UPDATE, number, before=before, after=self.rows[number])

    def patch(self, number: int, row: Any) -> None:
        written = self.values(self.some())
        self.rows[number] = {**row, **written}
        self.emit(Operation.UPDATE, number, after=written, image=Image.PARTIAL)

    def move(self, number: int, row: Any) -> None:
        other = self.random.choice([key for key in range(6) if key != number])
        written = {"id": other, **self.values(self.some())}
        del self.rows[number]
        self.rows[other] = {**row, **written}
        self.emit(Operation.UPDATE, other, before={"id": number}, after=written, image=Image.PARTIAL)

    def delete(self, number: int, row: Any) -> None:
        del self.rows[number]
        self.emit(Operation.DELETE, number, before={"id": number})

    def stale(self, number: int, row: Any) -> None:
        self.emit(Operation.UPDATE, number, after=None)

    def truncate(self, number: int, row: Any) -> None:
        self.rows.clear()
        self.emit(Operation.TRUNCATE, None)

    def some(self) -> list[str]:
        return self.random.sample(COLUMNS, self.random.randint(1, len(COLUMNS)))

    def values(self, names: Any) -> dict[str, Any]:
        return {
            name: self.random.choice([None, self.random.randrange(100), "x" * self.random.randrange(3)])
            for name in names
        }

    def emit(
        self,
        op: Operation,
        number: int | None,
        *,
        before: dict[str, Any] | None = None,
        after: dict[str, Any] | None = None,
        image: Image = Image.FULL,
    ) -> None:
        change = Change(
            op=op,
            key=None if number is None else json.dumps({"id": number}, separators=(",", ":")),
            before=None if before is None else json.dumps(before),
            after=None if after is None else json.dumps(after),
            before_image=Image.NONE if before is None else Image.KEY if len(before) == 1 else Image.FULL,
            after_image=Image.NONE if after is None else image,
            position=encode(7, len(self.events)),
        )
        self.events.append(change)


def step(change: Change, encoding: str) -> RowEvent:
    found = effect(change.op, change.before_image, change.after_image, encoding)
    assert found is not None
    assert isinstance(change.key, str)
    assert change.position is not None
    written = {**json_text.members(change.key), **json_text.members(change.after or b"{}")}
    cells = {name: Cell(value, encoding, None) for name, value in written.items()}
    return RowEvent(change.key, change.position, found, cells, old_key(change.key, change.before))


def fold(events: list[Change], encoding: str = "canonical", *, stored: bool = False) -> Fold:
    """The fold of events in the order of their positions, those of one position as they come here."""
    made, met = Fold(stored), Repetitions()
    for change in sorted(events, key=lambda change: change.position or ""):
        if change.op is Operation.TRUNCATE:
            if not met.meet("", change.position or "", change.op):
                made.truncate()
            continue
        written = step(change, encoding)
        if not met.meet(written.key, written.position, (change.op, change.before, change.after)):
            made.apply(written)
    return made


Held = dict[str, dict[str, bytes]]


def on_top(stored: Held, made: Fold) -> Held:
    """Stored rows and what a fold found out of some of them."""
    found = {key: row for key, row in stored.items() if key not in made.rows}
    for key, row in made.rows.items():
        if row is not None and (row.exists or (row.stored_key is not None and row.stored_key in stored)):
            found[key] = {**stored.get(row.stored_key or "", {}), **row.image()}
    return found


def shown(held: Held) -> Rows:
    return {
        json.loads(key)["id"]: {name: json.loads(value) for name, value in row.items()} for key, row in held.items()
    }


def folded(events: list[Change], encoding: str = "canonical") -> Rows:
    return shown(on_top({}, fold(events, encoding)))


@pytest.mark.parametrize("seed", range(300))
def test_any_arrival_with_repeats_gives_the_rows_of_every_moment(seed: int) -> None:
    made = random.Random(seed)
    database = Database(made)
    for _ in range(made.randint(1, 40)):
        database.step()
    for moment in {made.randrange(len(database.states)), len(database.states) - 1}:
        arrived = database.events[: moment + 1]
        arrived = arrived + made.choices(arrived, k=len(arrived) // 3)
        made.shuffle(arrived)
        assert folded(arrived) == database.states[moment]


def test_a_repetition_says_the_same_as_any_earlier_change_of_its_row_and_position() -> None:
    met = Repetitions()
    assert [met.meet("k", "1", content) for content in "abcabc"] == [False] * 3 + [True] * 3
    assert met.meet("other", "1", "a") is False
    assert met.ties == 0
    # As later changes, these two would decide.
    assert [met.meet("k", "1", content) for content in "ab"] == [True, True]
    assert met.ties == 2
    assert (met.meet("k", "1", "c"), met.ties) == (True, 0)
    assert (met.meet("k", "1", "b"), met.meet("k", "1", "a", counts=False), met.ties) == (True, True, 1)
    assert [met.meet("k", "2", "a"), met.meet("k", "2", "a")] == [False, True]
    assert met.ties == 1


@pytest.mark.parametrize("seed", range(300))
def test_changes_that_share_positions_take_place_as_they_arrive(seed: int) -> None:
    """Of events of one position those with the same content count once, as the first; dictionaries model the others."""
    made = random.Random(seed)
    database = Database(made)
    for _ in range(made.randint(1, 40)):
        database.step()
    events, place = [], 0
    for event in database.events:
        place += made.random() < 0.4
        events.append(msgspec.structs.replace(event, position=encode(7, place)))
    written: list[tuple[Any, ...]] = []
    expected: Rows = {}
    for event in events:
        content = (event.position, event.op, event.key, event.before, event.after)
        if content not in written:
            apply(expected, event)
        written.append(content)
    repeated = [*events, *made.choices(events, k=len(events) // 3)]
    assert folded(repeated) == expected


def apply(rows: Rows, event: Change) -> None:
    """What an event does to a dictionary of rows."""
    if event.op is Operation.TRUNCATE:
        rows.clear()
        return
    number, after = json.loads(event.key or "")["id"], json.loads(event.after or "null")
    if event.op is Operation.DELETE:
        rows.pop(number, None)
    elif event.op in (Operation.INSERT, Operation.REPLACE) or (after is not None and event.after_image is Image.FULL):
        rows[number] = after
    elif after is not None:
        before = json.loads(event.before or "null") or {"id": number}
        rows[number] = {**rows.pop(before["id"], {}), "id": number, **after}


@pytest.mark.parametrize("seed", range(300))
def test_folds_on_top_of_one_another_are_one_fold(seed: int) -> None:
    made = random.Random(seed)
    database = Database(made)
    for _ in range(made.randint(1, 40)):
        database.step()
    stored: Held = {}
    start = 0
    while start < len(database.events):
        end = start + made.randint(1, 12)
        part = database.events[start:end]
        last = max((place for place, one in enumerate(part) if one.op is Operation.TRUNCATE), default=None)
        if last is not None:
            stored, part = {}, part[last + 1 :]
        stored = on_top(stored, fold(part, stored=bool(stored)))
        start = end
        assert shown(stored) == database.states[min(end, len(database.states)) - 1]


def test_a_column_absent_from_a_full_image_goes_and_one_absent_from_a_partial_image_stays() -> None:
    database = Database(random.Random(0))
    database.emit(Operation.INSERT, 1, after={"id": 1, "a": 1, "b": 2})
    database.emit(Operation.UPDATE, 1, after={"a": 3}, image=Image.PARTIAL)
    assert folded(database.events) == {1: {"id": 1, "a": 3, "b": 2}}
    database.emit(Operation.UPDATE, 1, after={"id": 1, "a": None})
    assert folded(database.events) == {1: {"id": 1, "a": None}}


def test_a_change_without_values_marks_its_row_stale_and_writes_nothing() -> None:
    database = Database(random.Random(0))
    database.emit(Operation.INSERT, 1, after={"id": 1, "a": 1})
    database.emit(Operation.UPDATE, 1, before={"id": 1, "a": 0})
    assert fold(database.events).rows == {
        '{"id":1}': FoldedRow({"id": Cell(b"1", "canonical", None), "a": Cell(b"1", "canonical", None)}, stale=True)
    }


@pytest.mark.parametrize("encoding", ["dataworks", "dataworks-message"])
def test_the_first_half_of_a_dataworks_update_removes_its_key_and_the_second_writes_it(encoding: str) -> None:
    database = Database(random.Random(0))
    database.emit(Operation.INSERT, 1, after={"id": 1, "a": 1})
    database.emit(Operation.UPDATE, 1, before={"id": 1, "a": 1})
    assert folded(database.events, encoding) == {}
    database.emit(Operation.UPDATE, 1, after={"id": 1, "a": 2})
    assert folded(database.events[::-1], encoding) == {1: {"id": 1, "a": 2}}
