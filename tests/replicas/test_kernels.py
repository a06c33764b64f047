"""The two kernels of a fold without Spark: changes that share positions, against dictionaries."""

import random
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from changeling.iceberg.parquet_files import WriteSpec
from changeling.log.log_tables import QUARANTINE
from changeling.model import arrow_layouts
from changeling.model.change import Change
from changeling.model.operation import Operation
from changeling.model.position import encode
from changeling.model.table import Column, TableName, TableSchema
from changeling.replicas.change_order import ARRIVAL, Truncate, ranks, truncates_in_order
from changeling.replicas.fold_job import _joined
from changeling.replicas.fold_table import FoldTable
from changeling.replicas.fold_task import FoldKernel, TableOutcome, merged
from changeling.replicas.row_changes import RowChangesKernel
from changeling.replicas.row_events import READ_COLUMNS, ROW_EVENTS, sorted_events
from changeling.replicas.shape import columns_of
from tests.replicas.test_fold import COLUMNS, Database, Rows, apply

SCHEMA = TableSchema((Column("id", "int64"), *(Column(name, "json") for name in COLUMNS)), ("id",))
TABLE = TableName(None, None, "t")


def changes_batch(changes: list[Change]) -> pa.RecordBatch:
    """Changes as the log has them, in the order of arrival, a few a batch."""
    origin = pa.array(
        [{"ordinal": place // 7, "record": place % 7} for place in range(len(changes))], arrow_layouts.ORIGIN
    )
    own = [msgspec.structs.replace(change, table=TABLE) for change in changes]
    made = arrow_layouts.changes_batch(own, origin, "s", "canonical")
    known = {name: made.column(name) for name in READ_COLUMNS}
    places = {"batch": 20, "ordinal": 7, "record": 1}
    for name in ARRIVAL:
        numbers = [None if name == "partition" else 1 + place // places[name] for place in range(len(changes))]
        known[name] = pa.array(numbers, pa.int64())
    return pa.record_batch(list(known.values()), names=list(known))


def folded(changes: list[Change], folder: Path) -> tuple[Rows, TableOutcome]:
    """What Spark makes of changes, on one core."""
    columns = columns_of([], SCHEMA, "evolve", ("id",))
    table = FoldTable("s", TABLE, columns, columns.shape(), stored=False, staged=False)
    arrived = changes_batch(changes)
    truncates = truncates_in_order(
        Truncate(rank, None)
        for rank, change in zip(ranks(pa.table(arrived)), changes, strict=True)
        if change.op is Operation.TRUNCATE
    )
    if truncates:
        table = replace(table, start_after=truncates[-1].rank, truncates=truncates[-1:])
    fields = [("id", pa.int64()), *((name, pa.string()) for name in COLUMNS)]
    for attempt in count():
        target = WriteSpec(str(folder / str(attempt)), pa.schema(fields))
        quarantine = WriteSpec(str(folder / f"asides-{attempt}"), QUARANTINE.columns)
        events = pa.Table.from_batches([*RowChangesKernel((table,))([arrived])], ROW_EVENTS)
        ordered = sorted_events(events)
        kernel = FoldKernel((table,), (target,), quarantine, 1)
        parts = [
            msgspec.json.decode(text, type=TableOutcome)
            for found in kernel(ordered.to_batches(11))
            for text in found.column(0).to_pylist()
        ]
        outcome = merged(parts).get(0, TableOutcome(table=0))
        if not outcome.moves:
            rows = [row for file in outcome.files for row in pq.read_table(file.path).to_pylist()]
            return {row["id"]: row for row in rows}, outcome
        table = _joined(table, outcome.moves)
    raise AssertionError


def shown(rows: Rows) -> Rows:
    """Rows with every column, values as the replica has them."""
    return {number: {"id": number, **{name: _json(row.get(name)) for name in COLUMNS}} for number, row in rows.items()}


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def once(changes: list[Change]) -> tuple[Rows, int]:
    """The rows that changes make in the order of positions, without repetitions; and how many of those would decide.

    A truncate is a change of every row. It leaves nothing to be decided at earlier positions.
    """
    rows: Rows = {}
    met: dict[Any, list[Any]] = {}
    for change in sorted(changes, key=lambda change: change.position or ""):
        here = met.setdefault(change.position, [])
        content = (change.key, change.op, change.before, change.after)
        if content not in here:
            apply(rows, change)
        here.append(content)
    emptied = max((change.position or "" for change in changes if change.op is Operation.TRUNCATE), default="")
    ties = 0
    for position, here in met.items():
        for key in {key for key, *_ in here} - {None} if position >= emptied else ():
            own = [content for content in here if content[0] in (key, None)]
            (*_, last) = dict.fromkeys(own)
            ties += own[::-1].index(last)
    return rows, ties


@pytest.mark.parametrize("seed", range(30))
def test_changes_that_share_positions_are_distinguished_by_what_they_say(seed: int, tmp_path: Path) -> None:
    made = random.Random(seed)
    database = Database(made)
    while len(database.events) < 60:
        database.step()
    events, place = [], 0
    for event in database.events:
        place += made.random() < 0.4
        events.append(msgspec.structs.replace(event, position=encode(7, place)))
    for _ in range(seed % 3):
        # Near the end, so that more than a few changes are left.
        at = len(events) - made.randrange(1, 9)
        events.insert(at, Change(op=Operation.TRUNCATE, position=events[at - 1].position))
    arrived = [*events, *made.choices(events, k=20)]
    expected, ties = once(arrived)
    rows, outcome = folded(arrived, tmp_path)
    assert rows == shown(expected)
    assert outcome.ties == ties


def test_a_row_may_leave_its_key_twice_at_one_position(tmp_path: Path) -> None:
    """Both moves contain the whole row, and have the same row before them."""
    database = Database(random.Random(0))
    row = {"id": 1, **dict.fromkeys(COLUMNS)}
    moved = [{**row, "id": number} for number in (2, 3)]
    for after in moved:
        database.emit(Operation.INSERT, 1, after=row)
        database.emit(Operation.UPDATE, after["id"], before=row, after=after)
    events = [msgspec.structs.replace(event, position=encode(7)) for event in database.events]
    events[2] = msgspec.structs.replace(events[2], op=Operation.REPLACE)
    rows, _ = folded([*events, *events], tmp_path)
    assert rows == {2: moved[0], 3: moved[1]}
