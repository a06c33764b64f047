"""The data for replicas: one table of eight columns, loaded in one batch, then changed batch by batch, the same at every run."""

import random
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from bench.events import FIRST_TX, commit_ms, event
from changeling.model import times

TABLE = "accounts"
DECLARED = {
    "_id": "string",
    "owner": "string",
    "email": "string",
    "age": "int32",
    "is_active": "bool",
    "balance": "decimal(18,2)",
    "score": "float64",
    "opened_at": "timestamptz",
}
TYPED = pa.schema(
    [
        ("_id", pa.string()),
        ("owner", pa.string()),
        ("email", pa.string()),
        ("age", pa.int32()),
        ("is_active", pa.bool_()),
        ("balance", pa.decimal128(18, 2)),
        ("score", pa.float64()),
        ("opened_at", pa.timestamp("us", "UTC")),
        ("gone", pa.bool_()),
    ]
)
"""The same columns as a peer gets them, and whether the row was deleted."""

Row = dict[str, object]


class Change(NamedTuple):
    before: Row | None
    after: Row | None


class Accounts:
    """The state of the table: the values of a row follow from its number and how often it was written."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._written: dict[int, int] = {}
        self._alive: list[int] = []
        self._next = 0
        self.tx = FIRST_TX
        """The last transaction."""

    def load(self, count: int) -> Iterator[Change]:
        """Inserts `count` new rows."""
        for _ in range(count):
            yield Change(None, self._insert())

    def batch(self, count: int) -> list[Change]:
        """`count` changes of as many rows: 80 % updates, 10 % inserts and 10 % deletes, mixed."""
        inserts = deletes = count // 10
        places = self._random.sample(range(len(self._alive)), count - inserts)
        gone, kept = places[:deletes], places[deletes:]
        changes = [Change(_row(self._alive[place], self._count(place)), None) for place in gone]
        for place in kept:
            number, written = self._alive[place], self._count(place)
            self._written[number] = written + 1
            changes.append(Change(_row(number, written), _row(number, written + 1)))
        for place in sorted(gone, reverse=True):
            self._written.pop(self._alive[place], None)
            self._alive[place] = self._alive[-1]
            self._alive.pop()
        changes += [Change(None, self._insert()) for _ in range(inserts)]
        self._random.shuffle(changes)
        return changes

    def events(self, changes: Iterator[Change] | list[Change]) -> Iterator[bytes]:
        """The events of these changes, three in a transaction."""
        for place, (before, after) in enumerate(changes):
            if place % 3 == 0:
                self.tx += 1
            yield event(TABLE, before, after, self.tx, place % 3)

    def _insert(self) -> Row:
        number, self._next = self._next, self._next + 1
        self._alive.append(number)
        return _row(number, 0)

    def _count(self, place: int) -> int:
        return self._written.get(self._alive[place], 0)


def _row(number: int, written: int) -> Row:
    mixed = (number * 2_654_435_761 + written * 40_503) % 4_294_967_296
    return {
        "_id": f"account-{number}",
        "owner": f"Owner {mixed % 9_973} of Account",
        "email": f"owner{mixed % 99_991}@example.com",
        "age": 18 + mixed % 72,
        "is_active": mixed % 5 != 0,
        "balance": f"{mixed % 1_000_000}.{written % 100:02d}",
        "score": mixed / 1024,
        "opened_at": f"2023-12-{1 + mixed % 28:02d}T10:15:{mixed % 60:02d}.{mixed % 1000:03d}Z",
    }


def typed(changes: list[Change]) -> pa.Table:
    """The rows of changes, typed: the current ones, or the last ones of deleted rows."""
    return pa.Table.from_pylist([_typed(change) for change in changes], TYPED)


def _typed(change: Change) -> dict[str, Any]:
    row = change.before if change.after is None else change.after
    assert row is not None
    return {
        **row,
        "balance": Decimal(str(row["balance"])),
        "opened_at": datetime.fromisoformat(str(row["opened_at"])),
        "gone": change.after is None,
    }


def commit_time_text(tx: int) -> str:
    """The commit time of a transaction."""
    return times.to_text(commit_ms(tx) * 1_000_000)
