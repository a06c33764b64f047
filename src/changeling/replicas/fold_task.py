"""The second kernel of a fold: folds the ordered events of each row, types the result and writes it to files."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.formats.decoding import gc_paused
from changeling.iceberg.parquet_files import Writer, WriteSpec, WrittenFile, discard
from changeling.model.arrow_layouts import conform
from changeling.replicas.change_order import Rank, ranks
from changeling.replicas.fold import Fold, RowEvent
from changeling.replicas.fold_table import FoldTable
from changeling.replicas.repeated_events import repeated
from changeling.replicas.row_effect import Effect
from changeling.replicas.row_events import OLD_KEY_UNKNOWN, PLUS, ROW_EVENTS, UNIDENTIFIED
from changeling.replicas.row_writer import RowWriter, State
from changeling.replicas.snapshot_attempts import deciding
from changeling.replicas.superseded_events import PositionSpan, is_marker, marked_table, spans_in

OUTCOME = pa.schema([("outcome", pa.binary())])


class TableOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one task, or of all of them, for one table."""

    table: int
    events: int = 0
    rows: int = 0
    patched: int = 0
    """Rows that need a stored row to be complete."""
    quarantined: int = 0
    stale: int = 0
    moved: int = 0
    """Rows that moved here from a stored row: stale where that does not exist."""
    ties: int = 0
    """New changes treated as repetitions that would have decided what their row is, had they counted as later changes."""
    files: list[WrittenFile] = []
    quarantine_files: list[WrittenFile] = []
    wider: dict[str, list[str]] = {}
    moves: list[tuple[str, str]] = []
    """Keys between which rows with partial images moved, and that were not folded together."""
    unknown_old_keys: int = 0
    """New rows with partial images whose old key is not known yet."""
    spans: list[PositionSpan] = []
    """Where events were left out that later ones supersede."""


@dataclass(frozen=True)
class FoldKernel:
    """Folds row events, sorted by table, group, position and arrival, into one outcome a task."""

    tables: tuple[FoldTable, ...]
    specs: tuple[WriteSpec, ...]
    """Where the rows of each table go."""
    quarantine: WriteSpec
    point: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The outcomes of the tables that the task met."""
        done: list[TableOutcome] = []
        fold: _TableFold | None = None
        try:
            with gc_paused():
                for rows in _groups(conform(batch, ROW_EVENTS) for batch in batches):
                    for number, part in _tables(rows):
                        if is_marker(number):
                            done.append(TableOutcome(table=marked_table(number), spans=spans_in(part)))
                            continue
                        # Events are sorted by table: of thousands of tables, one has open files.
                        if fold is not None and fold.number != number:
                            done.append(fold.finished())
                            fold = None
                        if fold is None:
                            fold = self._fold(number)
                        fold.take(part)
                if fold is not None:
                    done.append(fold.finished())
        except BaseException:
            if fold is not None:
                fold.abandon()
            discard([file for outcome in done for file in (*outcome.files, *outcome.quarantine_files)])
            raise
        yield pa.record_batch([pa.array(map(msgspec.json.encode, done), pa.binary())], schema=OUTCOME)

    def _fold(self, number: int) -> "_TableFold":
        return _TableFold(number, self.tables[number], self.specs[number], self.quarantine, self.point)


def merged(parts: Iterable[TableOutcome]) -> dict[int, TableOutcome]:
    """The results of all tasks, by table."""
    found: dict[int, TableOutcome] = {}
    for part in parts:
        other = found.get(part.table)
        found[part.table] = part if other is None else _sum(other, part)
    return found


def _sum(one: TableOutcome, other: TableOutcome) -> TableOutcome:
    wider = {
        name: sorted({*one.wider.get(name, ()), *other.wider.get(name, ())}) for name in {**one.wider, **other.wider}
    }
    return TableOutcome(
        table=one.table,
        events=one.events + other.events,
        rows=one.rows + other.rows,
        patched=one.patched + other.patched,
        quarantined=one.quarantined + other.quarantined,
        stale=one.stale + other.stale,
        moved=one.moved + other.moved,
        ties=one.ties + other.ties,
        files=one.files + other.files,
        quarantine_files=one.quarantine_files + other.quarantine_files,
        wider=wider,
        moves=one.moves + other.moves,
        unknown_old_keys=one.unknown_old_keys + other.unknown_old_keys,
        spans=one.spans + other.spans,
    )


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The events, split so that no group is in two parts."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        start = _last_group(batch)
        if start == 0 and waiting and _same_group(waiting[-1], batch):
            waiting.append(batch)
            continue
        if waiting and not _same_group(waiting[-1], batch):
            yield pa.Table.from_batches(waiting)
            waiting = []
        if start:
            yield pa.Table.from_batches([*waiting, batch.slice(0, start)])
            waiting = []
        waiting.append(batch.slice(start))
    if waiting:
        yield pa.Table.from_batches(waiting)


def _last_group(batch: pa.RecordBatch) -> int:
    """Where the last group of a batch begins."""
    starts = _starts(pa.Table.from_batches([batch]))
    return int(np.flatnonzero(starts)[-1])


def _same_group(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    last = one.num_rows - 1
    return all(one.column(name)[last].as_py() == other.column(name)[0].as_py() for name in ("table", "group"))


def _starts(rows: pa.Table) -> np.ndarray:
    """Which events begin a group."""
    found: np.ndarray = _differs(rows, "table") | _differs(rows, "group")
    return found


def _differs(rows: pa.Table, name: str) -> np.ndarray:
    """Which rows differ from the row before in a column."""
    column = rows.column(name).combine_chunks()
    found: np.ndarray = np.ones(len(column), bool)
    if len(column) > 1:
        found[1:] = np.asarray(pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)))
    return found


def _tables(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    starts = [*np.flatnonzero(_differs(rows, "table")).tolist(), rows.num_rows]
    for start, end in pairwise(starts):
        yield rows.column("table")[start].as_py(), rows.slice(start, end - start)


class _TableFold:
    """Folds the groups of one table."""

    def __init__(self, number: int, table: FoldTable, spec: WriteSpec, quarantine: WriteSpec, point: int) -> None:
        self.number, self._table = number, table
        self._row_writer = RowWriter(table, Writer(spec), Writer(quarantine), point)
        self._events = self._ties = 0
        self._moves: set[tuple[str, str]] = set()
        self._unknown_old_keys = 0

    def take(self, rows: pa.Table) -> None:
        """Folds complete groups."""
        self._events += rows.num_rows
        if self._table.is_change_list:
            self._row_writer.write_changes(rows)
            return
        starts = _starts(rows)
        alone = starts | _differs(rows, "position")
        if self._table.truncates or not alone.all():
            repetitions, ties = repeated(rows, alone, self._table)
            self._ties += ties
            rows = rows.filter(pa.array(~repetitions))
            starts = _starts(rows)
        if not self._table.start_after.is_end:
            rows = rows.filter(pa.array(self._behind_floor(rows)))
            starts = _starts(rows)
        if not rows.num_rows:
            return
        if not self._table.shape.key:
            self._count(rows, starts)
        elif self._table.history:
            for start, end in _bounds(starts):
                self._write_states(rows.slice(start, end - start))
        else:
            self._fold(rows, starts)

    def _behind_floor(self, rows: pa.Table) -> np.ndarray:
        """Which events come after the truncate that the fold begins with."""
        start = self._table.start_after
        found = np.asarray(pc.greater(rows.column("position"), start.position))
        here = np.flatnonzero(~found)
        found[here] = [rank > start for rank in ranks(rows.take(pa.array(here, pa.int64())))]
        return found

    def _fold(self, rows: pa.Table, starts: np.ndarray) -> None:
        """A row whose last event contains all of it needs no other event; the rest is folded event by event."""
        effects = rows.column("effect").combine_chunks()
        decided = np.asarray(pc.is_in(effects, pa.array([Effect.REPLACE.value, Effect.DELETE.value])))
        mixed = ~np.asarray(rows.column("moved_from").combine_chunks().is_null())
        mixed |= np.asarray(pc.is_in(effects, pa.array([UNIDENTIFIED, OLD_KEY_UNKNOWN])))
        if self._table.groups:
            mixed |= _differs(rows, "key") & ~starts
        bounds = np.flatnonzero(starts)
        lasts = np.append(bounds[1:], len(starts)) - 1
        plain = decided[lasts] & ~np.logical_or.reduceat(mixed, bounds)
        winners = rows.take(pa.array(lasts[plain], pa.int64()))
        gone = np.asarray(pc.equal(winners.column("effect").combine_chunks(), Effect.DELETE.value))
        self._row_writer.write_whole_rows(winners.filter(pa.array(~gone)))
        self._row_writer.write_deletes(winners.filter(pa.array(gone)))
        for start, last in zip(bounds[~plain].tolist(), lasts[~plain].tolist(), strict=True):
            self._fold_group(rows.slice(start, last + 1 - start))

    def _fold_group(self, rows: pa.Table) -> None:
        refolded = bool(rows.column("refolded")[0].as_py())
        fold = Fold(self._table.stored)
        last: dict[str, str] = {}
        for _, event in self._identified(rows):
            fold.apply(event)
            last[event.key] = last[event.moved_from or event.key] = event.position
        for key, row in fold.rows.items():
            self._row_writer.write_row(key, row, refolded, last.get(key, ""))

    def _identified(self, rows: pa.Table) -> Iterator[tuple[int, RowEvent]]:
        """The events of a group, each with its row's number; changes that do not identify their row are quarantined."""
        names = ("key", "position", "effect", "values", "encoding", "schema", "moved_from")
        for number, (key, position, kind, values, encoding, schema, moved_from) in enumerate(
            zip(*(rows.column(name).to_pylist() for name in names), strict=True)
        ):
            if kind == UNIDENTIFIED:
                self._row_writer.quarantine_change(values, encoding, schema, position)
                continue
            if kind == OLD_KEY_UNKNOWN:
                self._unknown_old_keys += 1
                continue
            if moved_from is not None and self._table.groups.get(key) != self._table.groups.get(moved_from, ""):
                self._moves.add((moved_from, key))
            cells = {} if values is None else self._row_writer.typed.cells(values, encoding, schema)
            yield number, RowEvent(key, position, Effect(kind), cells, moved_from)

    def _write_states(self, rows: pa.Table) -> None:
        """Every state of each row of a group."""
        fold = Fold(self._table.stored)
        times, ops = (rows.column(name).to_pylist() for name in ("commit_time", "op"))
        states: dict[str, list[State]] = {}
        refolded = bool(rows.column("refolded")[0].as_py())
        truncates = self._table.truncates_of(refolded)
        places = list(ranks(rows)) if truncates else []
        passed: list[State] = []

        def pass_truncates(before: Rank | None) -> None:
            while truncates and (before is None or truncates[0].rank < before):
                truncate = truncates.pop(0)
                passed.append((truncate.rank.position, truncate.commit_time, "truncate", None))
                fold.truncate()
                for found in states.values():
                    found.append(passed[-1])

        for number, event in self._identified(rows):
            if truncates:
                pass_truncates(places[number])
            fold.apply(event)
            # A row that was only touched keeps its values, as far as is known.
            if event.effect is not Effect.TOUCH:
                for key in {event.key, event.moved_from or event.key}:
                    found = states.setdefault(key, passed[:1])
                    found.append((event.position, times[number], ops[number], fold.row(key)))
        pass_truncates(None)
        for key, found in states.items():
            self._row_writer.write_states(key, found, refolded)

    def _count(self, rows: pa.Table, starts: np.ndarray) -> None:
        """How many more or fewer rows of each kind there are."""
        effects = rows.column("effect").combine_chunks()
        unidentified = np.asarray(pc.equal(effects, UNIDENTIFIED))
        for _ in self._identified(rows.filter(pa.array(unidentified))):
            raise AssertionError("a change that does not identify its row makes no event")
        if unidentified.any():
            rows, effects = rows.filter(pa.array(~unidentified)), effects.filter(pa.array(~unidentified))
            starts = _starts(rows)
        if not rows.num_rows:
            return
        signs = np.where(np.asarray(pc.equal(effects, PLUS)), 1, -1)
        attempts = rows.column("attempt").combine_chunks()
        if attempts.null_count < len(attempts):
            counting = deciding(np.cumsum(starts).tolist(), attempts.to_pylist(), self._table.attempts)
            signs[~np.array(counting, bool)] = 0
        firsts = np.flatnonzero(starts)
        self._row_writer.write_counts(rows.take(pa.array(firsts, pa.int64())), np.add.reduceat(signs, firsts))

    def finished(self) -> TableOutcome:
        """Closes the files."""
        row_writer = self._row_writer
        row_writer.flush()
        found = TableOutcome(
            table=self.number,
            events=self._events,
            rows=row_writer.rows,
            patched=row_writer.patched,
            quarantined=row_writer.quarantined,
            stale=row_writer.stale,
            moved=row_writer.moved,
            ties=self._ties,
            wider={name: sorted(kinds) for name, kinds in row_writer.typed.wider.items()},
            moves=sorted(self._moves),
            unknown_old_keys=self._unknown_old_keys,
        )
        if found.wider or found.moves or found.unknown_old_keys:
            # The table is folded again with what was found: these files are useless.
            self.abandon()
            return found
        files, quarantine = row_writer.close()
        return msgspec.structs.replace(found, files=files, quarantine_files=quarantine)

    def abandon(self) -> None:
        """Leaves no file behind."""
        self._row_writer.abandon()


def _bounds(starts: np.ndarray) -> Iterator[tuple[int, int]]:
    places = [*np.flatnonzero(starts).tolist(), len(starts)]
    yield from pairwise(places)
