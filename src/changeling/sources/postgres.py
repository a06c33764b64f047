"""A PostgreSQL database as a source: a snapshot of its tables, then its log from where the snapshot was taken.

A batch is a range of commit LSNs, or ranges of blocks under one exported snapshot. The slot is advanced only to what is already
in the change log: what was not stored can always be read again.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

import psycopg
import pyarrow as pa
from pyspark.sql import SparkSession

from changeling.formats.options import ReadOptions
from changeling.model.errors import ChangelingError
from changeling.postgres.catalog import CatalogTable
from changeling.postgres.connection import unreachable
from changeling.postgres.readiness import Server
from changeling.postgres.slot import ExportedSnapshot
from changeling.sources import postgres_plan as plans
from changeling.sources.postgres_capture import Capture
from changeling.sources.postgres_known import AlteredTables, KnownTables
from changeling.sources.postgres_plan import PostgresPlan, Snapshot, Stream
from changeling.sources.postgres_reading import StreamReader
from changeling.sources.postgres_settings import CaptureSettings, Requests
from changeling.sources.postgres_snapshot import LockContention, RunningSnapshot
from changeling.sources.postgres_snapshot_reading import SnapshotReader, unreadable
from changeling.sources.source import Input, KnownSchema, PlanSize

_PATIENCE = 60.0
"""Seconds until a snapshot that open transactions prevented is tried again."""
_IDLE_BYTES = 16 * 1024 * 1024
"""How much of the log may pass without a captured change before the slot is advanced anyway."""
_MIN_BYTES = 1024 * 1024
"""Less of the log than this is not worth a task."""


class PostgresSource:
    """The tables of a database that match patterns, read from one slot."""

    format: str | None = None
    options = ReadOptions()
    has_more = True
    """Batches always contain whole transactions, so nobody waits for their ends."""

    def __init__(
        self,
        settings: CaptureSettings,
        requests: Requests,
        *,
        stored: str | None = None,
        own_state: str | None = None,
        resnapshot: bool = False,
    ) -> None:
        """`stored` is the last position in the log, `own_state` the state that the log stores for this source.

        `resnapshot`: all tables are snapshotted again.
        """
        self.name, self._stored = settings.name, stored
        self._settings, self._requests = settings, requests
        self._capture = Capture(settings)
        self._resnapshot = resnapshot
        self._system: str | None = None
        self._position: int | None = None
        self._done = KnownTables(own_state)
        self._altered = AlteredTables(self._capture, self._done)
        self._present: int | None = None
        self._end_was_given = False
        self._opened: Server | None = None
        self._snapshot: RunningSnapshot | None = None
        self._contention = LockContention()
        self._ended: dict[int, str] = {}
        """Why snapshots ended before all was read, by their LSN."""
        self._slot_lost = False
        """The log does not have a snapshot yet that follows the loss of the slot."""
        self._streamed = False
        self._looked = 0
        self.took_all = False
        self._not_before = 0.0
        self._warnings: list[str] = []

    def remember(self, plan: str) -> None:
        """Completed tables and ranges of the log that were read are not planned again."""
        known = plans.parse_plan(plan)
        self._system = known.system
        if isinstance(known, Stream):
            self._position = known.end
            self._done.alter(known)
            return
        if known.slot_recreated or self._position is None:
            self._position = known.start
        if known.slot_recreated:
            self._done.clear()
            self._slot_lost = False
        self._done.add(known)
        if self._snapshot is not None and self._snapshot.took(known):
            self._requests.answer(self._snapshot.asked)
            self._contention.forget(self._snapshot.locked.prints)
            self._end_snapshot()

    def state_after(self, plan: str, notes: Sequence[str]) -> str:
        """Tables that the stream described differently from their snapshots."""
        return self._done.note(plans.parse_plan(plan), notes, self._snapshot, self._capture.chosen.left_out)

    def left_out(self) -> dict[str, str]:
        """The tables that cannot be captured as they are."""
        return {str(table): why for table, why in self._capture.chosen.left_out.items()}

    def plan_next(self) -> str | None:
        """Parts of tables that are not completed, then the log; while a table is added, both in turn."""
        with self._reaching():
            plan = self._next()
        return None if plan is None else plans.format_plan(plan)

    def stop_at_present(self) -> None:
        """Transactions that commit from now on are left for another run."""
        with self._reaching():
            self._open()
            self._altered.look()
            self._present = self._capture.present()

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            self.close()
            raise unreachable(self._settings.url, error) from None

    def stop_at(self, position: int) -> None:
        """Transactions that commit from an LSN on are left for another run."""
        self._present, self._end_was_given = position, True

    def nothing(self) -> str:
        """A range without transactions."""
        place = self._position or 0
        return plans.format_plan(Stream(self._system or "", place, place))

    def broken(self, plan: str) -> str | None:
        """A snapshot ends with the connection that exported it; the log can be read again until it was stored."""
        known = plans.parse_plan(plan)
        if isinstance(known, Stream):
            return self._broken_stream(known)
        if self._snapshot is not None and self._snapshot.point.lsn == known.point:
            found = unreadable(self._reader(known))
            if found is None:
                return None
            self._contention.count(found.awaited)
            self._end_snapshot()
            self._ended[known.point] = f"is gone ({found.why})"
        why = self._ended.get(known.point, "ended with its run")
        return f"the snapshot of its tables {why}; tables that were not completed start again"

    def _broken_stream(self, plan: Stream) -> str | None:
        with self._reaching():
            self._open()
        if plan.start == plan.end or self._position == plan.start:
            return None
        return "its slot was lost before all of its changes were stored; the tables are snapshotted again"

    def input(self, spark: SparkSession, plan: str) -> Input:
        """One task for the log, or the driver where it is little; one task for each part of a table."""
        known = plans.parse_plan(plan)
        if isinstance(known, Snapshot):
            reader = self._reader(known)
            return _input(spark, len(known.parts), reader, in_driver=reader.held is not None)
        # An empty range needs no reader that queries the server.
        rows = 1 if known.start < known.end or known.altered else 0
        stream = StreamReader(self._capture.tables(), self._settings.slot, self._capture.publications, known)
        return _input(spark, rows, stream, in_driver=known.end - known.start <= _MIN_BYTES)

    def known_schemas(self, plan: str) -> list[KnownSchema]:
        """The schemas of the tables in a snapshot."""
        known = plans.parse_plan(plan)
        if isinstance(known, Stream) or self._snapshot is None:
            return []
        return self._snapshot.known_schemas(known, self._capture.tables())

    def plan_size(self, plan: str) -> PlanSize:
        """About how many bytes of the log, or which tables of the snapshot."""
        known = plans.parse_plan(plan)
        if isinstance(known, Stream):
            return PlanSize(bytes=plans.bytes_of(known))
        # The last part of a table has no end: its size is not known.
        return PlanSize(snapshot=None if self._snapshot is None else self._snapshot.share(known))

    def warnings(self) -> list[str]:
        """Warnings for the user, each returned once."""
        warnings, self._warnings = [*self._warnings, *self._capture.warnings()], []
        return warnings

    def close(self) -> None:
        """Advances the slot to what the log has, and closes the connections."""
        try:
            if self._opened is not None and self._position is not None:
                self._capture.release(self._position)
        except (psycopg.Error, ChangelingError) as error:
            self._warnings.append(f"the slot could not be advanced, which the next run does: {error}")
        finally:
            self._end_snapshot()
            self._capture.close()
            self._opened = None

    def _next(self) -> PostgresPlan | None:
        self.took_all = False
        server = self._open()
        assert self._position is not None
        self._capture.release(self._position)
        if self._snapshot is None:
            self._add_tables()
        running = self._snapshot
        if running is not None and running.comes_first(self._done, self._position, self._streamed):
            self._streamed = False
            return self._snapshot_plan(server)
        if (plan := self._stream_plan(server)) is not None:
            self._streamed = True
            return plan
        return None if running is None else self._snapshot_plan(server)

    def _snapshot_plan(self, server: Server) -> Snapshot | None:
        assert self._snapshot is not None
        assert self._position is not None
        most = max(1, self._settings.batch_bytes // plans.PART_BYTES)
        return self._snapshot.plan(server.system, self._position, most)

    def _stream_plan(self, server: Server) -> Stream | None:
        assert self._position is not None
        flushed = self._capture.flushed()
        end = max(self._position, flushed if self._present is None else min(flushed, self._present))
        most = min(end, self._position + self._settings.batch_bytes)
        self.took_all = most == end and self._snapshot is None
        if altered := self._altered.at(most):
            return Stream(server.system, self._position, most, altered)
        if end <= self._position or end == self._looked:
            return None
        if not self._capture.has_changes(end) and end - self._position < _IDLE_BYTES:
            self._looked = end
            return None
        return Stream(server.system, self._position, most)

    def _open(self) -> Server:
        """Connects, checks the preconditions, and creates what is missing; only on the first call."""
        if self._opened is not None:
            return self._opened
        server = self._capture.open()
        self._check_rules()
        self._capture.check_continues(None if self._resnapshot else self._system, self._position)
        status = self._capture.status()
        lost = self._capture.lost(status, self._position) or self._capture.went_back(
            status, self._stored, self._position
        )
        if lost is not None and not self._resnapshot:
            raise self._capture.refused(lost)
        self._capture.claim(begun=self._position is not None)
        if status is None or lost is not None:
            known, point = self._position is not None, self._capture.create_slot()
            self._position, self._slot_lost = point.lsn, known
            self._take(point, replaces_rows=known)
        elif self._position is None:
            self._position = status.confirmed
        if self._resnapshot:
            self._done.clear()
        self._resnapshot = False
        self._note_added()
        self._opened = server
        return server

    def _take(self, point: ExportedSnapshot, *, replaces_rows: bool) -> None:
        """Starts a snapshot of tables that are not completed: all of them, unless others wait for the lock of one."""
        if self._slot_lost:
            self._done.clear()
        chosen, asked = self._contention.next_tables(self._wanted()), self._requests.pending()
        locked = self._capture.lock_tables(point, chosen)
        if locked is None:
            # A table was rewritten between the snapshot and our lock on it: the snapshot would show it empty.
            point.close()
            self._take(self._capture.export_snapshot(), replaces_rows=True)
            return
        asked = {name: mark for name, mark in asked.items() if name in locked.prints}
        parts = [part for table, leaves in locked.leaves.items() for part in plans.parts_of(table, leaves)]
        held = self._contention.blocks_ddl(locked)
        self._snapshot = RunningSnapshot(point, locked, parts, asked, replaces_rows, self._slot_lost, held)
        if self._present is not None and not self._end_was_given:
            # It shows what committed since.
            self._present = max(self._present, point.lsn)
        if not parts:
            self._end_snapshot()

    def _add_tables(self) -> None:
        """Publishes new tables, and starts a snapshot of those that have none yet."""
        self._capture.look()
        self._note_added()
        self._check_rules()
        self._warn_gone()
        if not self._wanted() or monotonic() < self._not_before:
            return
        try:
            self._take(self._capture.export_snapshot(), replaces_rows=True)
        except ChangelingError as error:
            if not self._done:
                raise
            # The tables that are already captured continue.
            self._not_before = monotonic() + _PATIENCE
            self._warnings.append(f"tables wait for their snapshot: {error}")

    def _note_added(self) -> None:
        """A table that was unpublished for a while has lost changes: it is snapshotted again."""
        self._requests.ask(name for name in self._capture.chosen.added() if name in self._done)

    def _check_rules(self) -> None:
        """Leaves out tables whose rules do not match their columns; raises `UsageError` where no other is captured."""
        self._capture.chosen.check_rules(self._capture.prints(), self._done.print_of)

    def _warn_gone(self) -> None:
        """Warns about tables that are no longer captured: their replicas stay."""
        present = [*(one.table for one in self._capture.found), *self._capture.chosen.left_out]
        self._warnings += self._done.gone(present)

    def _wanted(self) -> list[CatalogTable]:
        """The tables without a snapshot, the requested ones, and those whose rows changed since without a change in the log."""
        found, asked = self._capture.found, self._requests.pending()
        outdated = {one.oid for one in self._done.outdated(found, self._capture.prints())}
        return [one for one in found if one.oid in outdated or one.table.spelled() in asked]

    def _reader(self, plan: Snapshot) -> SnapshotReader:
        if self._snapshot is None:
            raise ChangelingError(f"source {self.name}: the snapshot of its tables is gone")
        running, held = self._snapshot, self._capture.locking if self._snapshot.held else None
        return SnapshotReader(self._capture.tables(), plan, running.point.snapshot, running.locked.relations, held)

    def _end_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.point.close()
            self._capture.unlock()
            self._snapshot = None


def _input(spark: SparkSession, rows: int, reader: SnapshotReader | StreamReader, *, in_driver: bool) -> Input:
    """A task a row, or all in the driver."""
    numbers = pa.record_batch({"id": pa.array(range(rows), pa.int64())})
    return Input(spark.range(0, rows, 1, max(1, rows)), reader, driver_rows=numbers if in_driver else None)
