"""A PostgreSQL database as a source: a snapshot of its tables, then its log from where the snapshot was taken.

A batch is a range of places at which transactions commit, or ranges of blocks under one exported snapshot. The slot is advanced
only to where the change log is already: what was not stored can always be read again.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

import psycopg
from pyspark.sql import SparkSession

from changeling.formats.options import ReadOptions
from changeling.model.errors import ChangelingError
from changeling.model.position import decode
from changeling.postgres import lsn
from changeling.postgres.catalog import Found
from changeling.postgres.connection import unreachable
from changeling.postgres.readiness import Server
from changeling.postgres.slot import ExportedPoint, Standing
from changeling.sources import postgres_plan as plans
from changeling.sources.postgres_altered import AlteredTables
from changeling.sources.postgres_capture import Capture
from changeling.sources.postgres_known import KnownTables
from changeling.sources.postgres_plan import Plan, Snapshot, Stream
from changeling.sources.postgres_reading import SnapshotReader, StreamReader, check_alive
from changeling.sources.postgres_requests import Requests
from changeling.sources.postgres_settings import CaptureSettings
from changeling.sources.postgres_snapshot import SnapshotGoingOn
from changeling.sources.source import Foreseen, Input, Spread

STREAMED = 2
"""Positions of the stream have a place and an ordinal; those of a snapshot have more."""
_PATIENCE = 60.0
"""Seconds until a snapshot is tried again that open transactions did not let begin."""
_IDLE_BYTES = 16 * 1024 * 1024
"""So much of the log may pass by without a change of ours, before the slot is moved on all the same."""


class PostgresSource:
    """The tables of a database that patterns stand for, by one slot."""

    format: str | None = None
    options = ReadOptions()

    def __init__(
        self,
        settings: CaptureSettings,
        requests: Requests,
        *,
        stored: str | None = None,
        kept: str | None = None,
        resnapshot: bool = False,
    ) -> None:
        """`stored` is the furthest position that the log has, `kept` what it keeps for this source.

        `resnapshot`: all tables are taken anew.
        """
        self.name = settings.name
        self._stored = stored
        self._settings, self._requests = settings, requests
        self._capture = Capture(settings)
        self._resnapshot = resnapshot
        self._system: str | None = None
        self._position: int | None = None
        self._done = KnownTables(kept)
        self._altered = AlteredTables(self._capture, self._done)
        self._present: int | None = None
        self._opened: Server | None = None
        self._snapshot: SnapshotGoingOn | None = None
        self._streamed = False
        self._looked = 0
        self._not_before = 0.0
        self._warnings: list[str] = []

    def remember(self, plan: str) -> None:
        """Tables that are done and places that are behind are not planned again."""
        known = plans.parse(plan)
        self._system = known.system
        if isinstance(known, Stream):
            self._position = known.end
            self._done.alter(known)
            return
        if known.anew or self._position is None:
            self._position = known.start
        if known.anew:
            self._done.clear()
        self._done.add(known)
        if self._snapshot is not None and self._snapshot.took(known):
            self._requests.answer(self._snapshot.asked)
            self._end_snapshot()

    def kept(self, plan: str, notes: Sequence[str]) -> str:
        """Tables that the stream described otherwise than their snapshots have them."""
        return self._done.note(plans.parse(plan), notes, self._snapshot, self._capture.chosen.left_out)

    def left_out(self) -> dict[str, str]:
        """The tables that cannot be captured as they are."""
        return {str(table): why for table, why in self._capture.chosen.left_out.items()}

    def next(self) -> str | None:
        """Parts of tables that are not done, then the log; while a table is added, both in turn."""
        with self._reaching():
            plan = self._next()
        return None if plan is None else plans.spell(plan)

    def stop_at_present(self) -> None:
        """What commits from now on is left for another time."""
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

    def stop_at(self, place: int) -> None:
        """What commits from a place on is left for another time."""
        self._present = place

    def nothing(self) -> str:
        """A range without transactions."""
        place = self._position or 0
        return plans.spell(Stream(self._system or "", place, place))

    def broken(self, plan: str) -> str | None:
        """A snapshot ends with the connection that exported it; the log can be read again until it was stored."""
        known = plans.parse(plan)
        if isinstance(known, Stream):
            return self._broken_stream(known)
        if self._snapshot is None or self._snapshot.point.lsn != known.point:
            return "the snapshot of its tables ended with the run that took it; those that were not done start again"
        why = check_alive(self._reader(known))
        if why is None:
            return None
        self._end_snapshot()
        return f"the snapshot of its tables is gone ({why}); those that were not done start again"

    def _broken_stream(self, plan: Stream) -> str | None:
        with self._reaching():
            self._open()
        if plan.start == plan.end or self._position == plan.start:
            return None
        return "its slot was lost before all that it told was stored; the tables are taken anew"

    def input(self, spark: SparkSession, plan: str) -> Input:
        """One task for the log; one for each part of a table."""
        known = plans.parse(plan)
        if isinstance(known, Snapshot):
            return Input(spark.range(0, len(known.parts), 1, max(1, len(known.parts))), self._reader(known))
        # An empty range needs no reader that asks the server.
        rows = 1 if known.start < known.end or known.altered else 0
        reader = StreamReader(self._capture.tables(), self._settings.slot, self._capture.publications, known)
        return Input(spark.range(0, rows, 1, 1), reader)

    def foreseen(self, plan: str) -> list[Foreseen]:
        """The schemas of the tables in a snapshot."""
        known = plans.parse(plan)
        if isinstance(known, Stream) or self._snapshot is None:
            return []
        return self._snapshot.foreseen(known, self._capture.tables())

    def spread(self, plan: str) -> Spread:
        """Bytes of the log or of tables, about."""
        return Spread(bytes=plans.bytes_of(plans.parse(plan)))

    def warnings(self) -> list[str]:
        """What a user should know."""
        told, self._warnings = [*self._warnings, *self._capture.warnings()], []
        return told

    def close(self) -> None:
        """Lets go of what the log has, and of the connections."""
        try:
            if self._opened is not None and self._position is not None:
                self._capture.release(self._position)
        except (psycopg.Error, ChangelingError) as error:
            self._warnings.append(f"the slot could not be advanced, which the next run does: {error}")
        finally:
            self._end_snapshot()
            self._capture.close()
            self._opened = None

    def _next(self) -> Plan | None:
        server = self._open()
        assert self._position is not None
        self._capture.release(self._position)
        if self._snapshot is None:
            self._add_tables()
        waiting = self._snapshot is not None
        if waiting and (self._streamed or not self._snapshot_is_added()):
            self._streamed = False
            return self._snapshot_plan(server)
        if (plan := self._stream_plan(server)) is not None:
            self._streamed = True
            return plan
        return self._snapshot_plan(server) if waiting else None

    def _snapshot_is_added(self) -> bool:
        """Whether it is of tables that came later: those that were there first are snapshotted before all else."""
        return self._snapshot is not None and self._snapshot.again and not self._snapshot.anew and bool(self._done)

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
        if altered := self._altered.at(most):
            return Stream(server.system, self._position, most, altered)
        if end <= self._position or end == self._looked:
            return None
        if not self._capture.has_changes(end) and end - self._position < _IDLE_BYTES:
            self._looked = end
            return None
        return Stream(server.system, self._position, most)

    def _open(self) -> Server:
        """Connects, checks what must hold, and makes what is missing; only the first call does."""
        if self._opened is not None:
            return self._opened
        server = self._capture.open()
        self._check_rules()
        if self._system not in (None, server.system) and not self._resnapshot:
            raise ChangelingError(
                f"source {self.name}: this is another server than the one that was captured before, so that places in its log "
                "mean something else: point the url at the former one, or run with --resnapshot"
            )
        if self._position is not None and (flushed := self._capture.flushed()) < self._position:
            raise ChangelingError(
                f"source {self.name}: the log of this server ends at {lsn.spell(flushed)}, before what was stored "
                f"({lsn.spell(self._position)}): it is another one, or was restored from a backup, and what it tells cannot be put "
                "behind what is known. Begin with a pipeline of another name, or `changeling remove` this one first"
            )
        standing = self._capture.standing()
        lost = self._capture.lost(standing, self._position) or self._went_back(standing)
        if lost is not None and not self._resnapshot:
            raise self._capture.refused(lost)
        self._capture.claim(begun=self._position is not None)
        if standing is None or lost is not None:
            known = self._position is not None
            point = self._capture.create_slot()
            self._position = point.lsn
            self._take(point, again=known, anew=known)
        elif self._position is None:
            self._position = standing.confirmed
        if self._resnapshot:
            self._done.clear()
        self._resnapshot = False
        self._note_added()
        self._opened = server
        return server

    def _went_back(self, standing: Standing | None) -> str | None:
        """Whether the server has lost what was stored already: its log may have grown since to where it was."""
        last = decode(self._stored) if self._stored is not None else ()
        if standing is None or self._position is None or last[0:1] < (standing.confirmed,):
            return None
        if len(last) != STREAMED or not last[1]:
            # No transaction's: a snapshot that emptied a table, or a message outside of any.
            return None
        if self._capture.commits_at(last[0], self._position):
            return None
        return (
            f"the server does not know the last transaction that was stored ({lsn.spell(last[0])}): it was restored from a backup, "
            "or its publication was altered"
        )

    def _take(self, point: ExportedPoint, *, again: bool, anew: bool) -> None:
        """Begins a snapshot of all tables that are not done."""
        if anew:
            self._done.clear()
        asked = self._requests.pending()
        held = self._capture.hold(point, self._wanted())
        if held is None:
            # A table was written anew between the point and our lock on it: the snapshot would show it empty.
            point.close()
            self._take(self._capture.temporary_point(), again=True, anew=anew)
            return
        blocks = plans.PART_BYTES // plans.BLOCK
        parts = [part for table, leaves in held.leaves.items() for part in plans.parts_of(table, leaves, blocks)]
        self._snapshot = SnapshotGoingOn(point, held, parts, asked, again, anew)
        if not parts:
            self._end_snapshot()

    def _add_tables(self) -> None:
        """Publishes tables that came to be, and begins a snapshot of those that have none yet."""
        self._capture.look()
        self._note_added()
        self._check_rules()
        self._tell_gone()
        if not self._wanted() or monotonic() < self._not_before:
            return
        try:
            point = self._capture.temporary_point()
        except ChangelingError as error:
            if not self._done:
                raise
            # What is captured already goes on meanwhile.
            self._not_before = monotonic() + _PATIENCE
            self._warnings.append(f"tables wait for their snapshot: {error}")
            return
        self._take(point, again=True, anew=False)

    def _note_added(self) -> None:
        """A table that was published before, and then was not for a while, has lost changes: it is taken anew."""
        self._requests.ask(name for name in self._capture.chosen.added() if name in self._done)

    def _check_rules(self) -> None:
        """Leaves tables out whose rules do not fit their columns; raises `UsageError` where no other is captured."""
        self._capture.chosen.check_rules(self._capture.prints(), self._done.print_of)

    def _tell_gone(self) -> None:
        """Tells of tables that went: their replicas stay."""
        for name in self._done.gone([*(one.table for one in self._capture.found), *self._capture.chosen.left_out]):
            self._warnings.append(
                f"{name} is no longer among the tables that are captured (dropped, renamed, made a partition, or not asked for): "
                "its replica stays as it was"
            )

    def _wanted(self) -> list[Found]:
        """The tables without a snapshot, those asked for, and those of which rows changed since without a word in the log."""
        found, asked = self._capture.found, self._requests.pending()
        outdated = {one.oid for one in self._done.outdated(found, self._capture.prints())}
        return [one for one in found if one.oid in outdated or one.table.spelled() in asked]

    def _reader(self, plan: Snapshot) -> SnapshotReader:
        if self._snapshot is None:
            raise ChangelingError(f"source {self.name}: the snapshot of its tables is gone")
        return SnapshotReader(
            self._capture.tables(), plan, self._snapshot.point.snapshot, self._snapshot.held.relations
        )

    def _end_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.point.close()
            self._capture.let_go()
            self._snapshot = None
