"""Random histories of a small database, encoded in Transferia's dialect, and what its tables hold: dictionaries, nothing else.

Many histories stand side by side in one table, each with keys of its own; truncates and schema changes are the table's. Changes
that follow one another may share a position: then they say different things.
"""

import copy
import json
import random
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
KEYS = 4
"""Rows that one history plays with."""


@dataclass
class Table:
    """One table as the database has it."""

    name: str
    keyed: bool
    grows_only: bool = False
    """Its columns stay; new ones may come."""
    columns: dict[str, str] = field(default_factory=lambda: {"h": "int32", "id": "int32", "a": "utf8", "b": "int32"})
    rows: dict[tuple[int, int], Row] = field(default_factory=dict)
    made: int = 0
    altered: bool = False
    """No record has its columns yet."""

    def state(self) -> "State":
        return State(list(self.columns), sorted(({**row} for row in self.rows.values()), key=repr))


@dataclass(frozen=True)
class State:
    """A table at one moment."""

    columns: list[str]
    rows: list[Row]


@dataclass(frozen=True)
class Version:
    """One state of one row: which change made it, and which ended it."""

    row: Row
    op: str
    begun: int
    ended: int | None


@dataclass(frozen=True)
class Committed:
    """One transaction: its records, its time, and all tables after it."""

    number: int
    time: int
    records: list[str]
    tables: dict[str, State]


class Database:
    """Commits random transactions."""

    def __init__(self, seed: int, tables: list[Table], histories: int) -> None:
        self.random = random.Random(seed)
        self.tables, self._histories = tables, histories
        self.committed: list[Committed] = []
        self._clock = 1_700_000_000_000_000_000
        self._records: list[str] = []
        self._order = 0
        self._records_here: list[Any] = []
        self.versions: dict[str, dict[tuple[int, int], list[Version]]] = {table.name: {} for table in tables}

    def commit(self) -> None:
        """One transaction of a few changes."""
        self._records, self._order, self._records_here = [], 0, []
        # Clocks run backwards now and then.
        self._clock += self.random.choice([1, 1, 1, 1, -3]) * self.random.randrange(1, 5) * 1_000_000_000
        for _ in range(self.random.randint(1, 6)):
            table = self.random.choice(self.tables)
            if self.random.random() < 0.01:
                self._alter(table)
            if self.random.random() < 0.004:
                self._truncate(table)
            self._change(table)
            while table.altered:
                # What no record shows, no replica can know.
                self._change(table)
        states = {table.name: table.state() for table in self.tables}
        self.committed.append(Committed(self._number, self._clock, self._records, states))

    @property
    def _number(self) -> int:
        return len(self.committed) + 1

    def _change(self, table: Table) -> None:
        key = (self.random.randrange(self._histories), self.random.randrange(KEYS))
        row = table.rows.get(key)
        if row is None:
            self._insert(table, key)
            return
        choices = [self._update, self._patch, self._delete] if table.keyed else [self._update, self._delete]
        if table.keyed:
            choices += [self._patch, self._move, self._move_whole]
        self.random.choice(choices)(table, key, row)

    def _insert(self, table: Table, key: tuple[int, int]) -> None:
        # A row without a key may be there twice.
        row = {"h": key[0], "id": key[1], **self._values(table, self._free(table))}
        twice = not table.keyed and self.random.random() < 0.4
        for copy_number in range(2 if twice else 1):
            place = key if copy_number == 0 else (key[0], key[1] + 100)
            if place in table.rows:
                continue
            table.rows[place] = dict(row)
            self._emit(table, "insert", row)
            self._begin(table, place, "insert")

    def _update(self, table: Table, key: tuple[int, int], row: Row) -> None:
        old = dict(row)
        row.update(self._values(table, self._free(table)))
        self._emit(table, "update", row, old if not table.keyed else self._key(old))
        self._begin(table, key, "update")

    def _patch(self, table: Table, key: tuple[int, int], row: Row) -> None:
        carried = self._values(
            table, self.random.sample(self._free(table), self.random.randint(0, len(self._free(table))))
        )
        row.update(carried)
        self._emit(table, "update", {**self._key(row), **carried}, self._key(row))
        self._begin(table, key, "update")

    def _move(self, table: Table, key: tuple[int, int], row: Row) -> None:
        self._moved(table, key, row, self.random.sample(self._free(table), self.random.randint(0, 1)))

    def _move_whole(self, table: Table, key: tuple[int, int], row: Row) -> None:
        self._moved(table, key, row, self._free(table))

    def _moved(self, table: Table, key: tuple[int, int], row: Row, names: list[str]) -> None:
        other = (key[0], self.random.randrange(KEYS + 2))
        if other == key or other in table.rows:
            return
        old = self._key(row)
        del table.rows[key]
        carried = {"h": other[0], "id": other[1], **self._values(table, names)}
        table.rows[other] = {**row, **carried}
        self._emit(table, "update", carried, old)
        self._end(table, key)
        self._begin(table, other, "update")

    def _delete(self, table: Table, key: tuple[int, int], row: Row) -> None:
        del table.rows[key]
        self._emit(table, "delete", None, self._key(row) if table.keyed else row)
        self._end(table, key)

    def _truncate(self, table: Table) -> None:
        self._emit(table, "truncate", None)
        for key in table.rows:
            self._end(table, key)
        table.rows.clear()

    def _alter(self, table: Table) -> None:
        """Another schema: a column more, one less, another name, a wider type."""
        free = self._free(table)
        table.made += 1
        table.altered = True
        kind = "add" if table.grows_only else self.random.choice(["add", "drop", "rename", "widen"])
        if kind == "add" or len(free) < 2:
            name = f"c{table.made}"
            table.columns[name] = self.random.choice(["utf8", "int32"])
            for row in table.rows.values():
                row[name] = None
        elif kind == "drop":
            gone = self.random.choice(free)
            del table.columns[gone]
            for row in table.rows.values():
                del row[gone]
        elif kind == "rename":
            old, new = self.random.choice(free), f"r{table.made}"
            table.columns = {new if name == old else name: kind for name, kind in table.columns.items()}
            for row in table.rows.values():
                row[new] = row.pop(old)
        else:
            narrow = [name for name in free if table.columns[name] == "int32"]
            for name in narrow[:1]:
                table.columns[name] = "int64"

    def _free(self, table: Table) -> list[str]:
        return [name for name in table.columns if name not in ("h", "id")]

    def _key(self, row: Row) -> Row:
        return {"h": row["h"], "id": row["id"]}

    def _values(self, table: Table, names: list[str]) -> Row:
        made: dict[str, list[Any]] = {
            "utf8": [None, "", 'x\u00fc"y', self.random.choice("abc") * 3],
            "int32": [None, 0, self.random.randrange(-50, 50)],
            "int64": [None, self.random.randrange(2**40)],
        }
        return {name: self.random.choice(made[table.columns[name]]) for name in names}

    def _begin(self, table: Table, key: tuple[int, int], op: str) -> None:
        self._end(table, key)
        self.versions[table.name].setdefault(key, []).append(
            Version(copy.copy(table.rows[key]), op, self._number * 1000 + self._order, None)
        )

    def _end(self, table: Table, key: tuple[int, int]) -> None:
        """The state that holds ends with the record that was emitted last."""
        found = self.versions[table.name].get(key)
        if found and found[-1].ended is None:
            last = found[-1]
            found[-1] = Version(last.row, last.op, last.begun, self._number * 1000 + self._order)

    def _emit(self, table: Table, kind: str, row: Row | None, old: Row | None = None) -> None:
        self._place((table.name, kind, row, old))
        table.altered &= kind == "truncate"
        schema = [
            {"name": name, "type": of, "key": table.keyed and name in ("h", "id"), "required": False}
            for name, of in table.columns.items()
        ]
        record = {
            "kind": kind,
            "schema": "public",
            "table": table.name,
            "id": self._number,
            "nextlsn": self._number,
            "commitTime": self._clock,
            "txPosition": self._order,
            "columnnames": [] if row is None else list(row),
            "columnvalues": [] if row is None else list(row.values()),
            "table_schema": [] if kind == "truncate" else schema,
            "oldkeys": {} if old is None else {"keynames": list(old), "keyvalues": list(old.values())},
        }
        self._records.append(json.dumps(record))

    def _place(self, carried: tuple[Any, ...]) -> None:
        """The position of the next record: that of the one before now and then, unless it would be taken for a repetition."""
        here = self._records_here
        carried = copy.deepcopy(carried)
        if not (here and carried not in here and self.random.random() < 0.3):
            self._order += 1
            here.clear()
        here.append(carried)


def batches(database: Database, count: int, disorder: str) -> list[list[str]]:
    """All records in so many batches: in order, nearly in order, or shuffled; some of them twice.

    Those that share a position come in their order.
    """
    made = database.random
    records = [record for transaction in database.committed for record in transaction.records]
    order = list(range(len(records)))
    if disorder == "shuffled":
        made.shuffle(order)
    elif disorder == "late":
        order.sort(key=lambda place: place + (made.random() < 0.1) * made.randrange(len(records)))
    carried = [records[place] for place in _ties_in_order(order, records)]
    cuts = sorted(made.randrange(len(carried) + 1) for _ in range(count - 1))
    parts = [carried[start:end] for start, end in zip([0, *cuts], [*cuts, len(carried)], strict=True)]
    if disorder != "ordered":
        for place, part in enumerate(parts):
            seen = [record for earlier in parts[: place + 1] for record in earlier]
            part.extend(made.choices(seen, k=len(part) // 10) if seen else [])
    return parts


def _ties_in_order(order: list[int], records: list[str]) -> list[int]:
    """The same order, but for records that share a position: they change places among themselves."""
    positions = [(found["nextlsn"], found["txPosition"]) for found in map(json.loads, records)]
    waiting: dict[tuple[int, int], list[int]] = {}
    for place in sorted(order, reverse=True):
        waiting.setdefault(positions[place], []).append(place)
    return [waiting[positions[place]].pop() for place in order]
