"""The tables of which a snapshot is in the log: as they were then, what the stream has shown since, and new schemas."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from changeling.model.table import TableName
from changeling.postgres.catalog import CatalogTable
from changeling.postgres.fingerprint import ColumnFingerprint, Fingerprint
from changeling.postgres.published_table import PublishedTable
from changeling.postgres.relation_messages import from_texts
from changeling.postgres.table_drift import Drift, SnapshottedTable
from changeling.sources.postgres_capture import Capture
from changeling.sources.postgres_plan import Altered, PostgresPlan, Snapshot, Stream
from changeling.sources.postgres_snapshot import RunningSnapshot


class KnownTables:
    """The tables with a snapshot, by their spelled names."""

    def __init__(self, kept: str | None) -> None:
        """`kept` is the last result of `note`."""
        self._prints: dict[str, Fingerprint] = {}
        self._points: dict[str, int] = {}
        self._columns: dict[str, tuple[ColumnFingerprint, ...]] = {}
        self._drift = Drift() if kept is None else msgspec.json.decode(kept, type=Drift)
        self._reported_gone: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._prints)

    def __contains__(self, name: str) -> bool:
        return name in self._prints

    def print_of(self, name: str) -> Fingerprint | None:
        """A table as its snapshot has it."""
        return self._prints.get(name)

    def clear(self) -> None:
        """Forgets all, so that they are snapshotted again."""
        self._prints.clear()

    def add(self, plan: Snapshot) -> None:
        """Adds the tables that are complete with a batch."""
        self._prints |= plan.prints
        self._points |= dict.fromkeys(plan.prints, plan.point)
        self._columns |= {name: fingerprint.columns for name, fingerprint in plan.prints.items()}

    def alter(self, plan: Stream) -> None:
        """Adds the schemas that are in the log with a batch."""
        self._columns |= {one.table.spelled(): one.columns for one in plan.altered}

    def note(
        self, plan: PostgresPlan, notes: Sequence[str], running: RunningSnapshot | None, left_out: Collection[TableName]
    ) -> str:
        """Adds what the stream described; returns the state to keep. Noting it twice changes nothing.

        Changes of tables in `left_out` were skipped.
        """
        known = [self._snapshotted(name) for name in self._prints]
        if running is not None:
            prints, point = running.locked.prints, running.point.lsn
            known += [_snapshotted(name, fingerprint, point) for name, fingerprint in prints.items()]
        described = from_texts(notes)
        self._drift.note(described, known)
        if isinstance(plan, Stream):
            names = [table.spelled() for table in left_out]
            oids = {self._prints[name].oid for name in names if name in self._prints}
            self._drift.note_left_out(described, oids, plan.end)
        return msgspec.json.encode(self._drift).decode()

    def outdated(self, found: Sequence[CatalogTable], now: Mapping[str, Fingerprint]) -> Iterator[CatalogTable]:
        """The tables without a snapshot, and those whose rows changed since without a change in the log."""
        for one in found:
            name = one.table.spelled()
            before = self._prints.get(name)
            if before is None or now[name].outdates(before) or self._drifted(name, now[name]):
                yield one

    def reshaped(self, found: Sequence[CatalogTable], now: Mapping[str, Fingerprint]) -> Iterator[CatalogTable]:
        """The tables whose columns differ from the log's, and whose rows did not change."""
        outdated = {one.oid for one in self.outdated(found, now)}
        for one in found:
            name = one.table.spelled()
            if one.oid not in outdated and self._columns[name] != now[name].columns:
                yield one

    def gone(self, present: Iterable[TableName]) -> list[str]:
        """A warning about each table that no longer exists; each is reported once."""
        gone = sorted(self._prints.keys() - {table.spelled() for table in present} - self._reported_gone)
        self._reported_gone.update(gone)
        return [
            f"{name} is no longer among the tables that are captured (dropped, renamed, made a partition, or not asked for): "
            "its replica stays as it was"
            for name in gone
        ]

    def _drifted(self, name: str, now: Fingerprint) -> bool:
        return self._drift.outdates(self._snapshotted(name), now)

    def _snapshotted(self, name: str) -> SnapshottedTable:
        return _snapshotted(name, self._prints[name], self._points[name])


def _snapshotted(name: str, fingerprint: Fingerprint, point: int) -> SnapshottedTable:
    table = TableName.parse(name)
    return SnapshottedTable(table.schema or "", table.name, fingerprint, point)


class _Look(NamedTuple):
    columns: tuple[ColumnFingerprint, ...]
    lsn: int


@dataclass
class AlteredTables:
    """Tables whose columns differ from the log's, although no row of them changed: their new schema comes without rows.

    A schema must be in the log where it applies: after every change with the schema before it, and before every change with a later
    one. An `ALTER TABLE` waits for all writers of the table, so changes before it commit before it. Hence a schema on which two looks
    at the catalog agree applies at every LSN between them.
    """

    capture: Capture
    known: KnownTables
    _looks: dict[str, _Look] = field(default_factory=dict)

    def look(self) -> None:
        """Takes the earlier look; every LSN from now on is after it."""
        self._take(self.capture.prints())

    def at(self, lsn: int) -> tuple[Altered, ...]:
        """The tables whose schema is not in the log and applies at an LSN that is flushed to disk."""
        now = self.capture.prints()
        found = list(self.known.reshaped(self.capture.found, now))
        self._looks = {name: look for one in found if (look := self._looks.get(name := one.table.spelled()))}
        # Only a table that was altered since is looked at again: the others would wait for a later LSN without need.
        differing = {name for one in found if not self._agrees(name := one.table.spelled(), now[name])}
        if differing:
            self._take({name: now[name] for name in differing})
        ready = [one for one in found if self._looks[one.table.spelled()].lsn <= lsn]
        return self._altered([one for one in ready if one.table.spelled() not in differing], now)

    def _take(self, prints: Mapping[str, Fingerprint]) -> None:
        lsn = self.capture.inserted()
        self._looks |= {name: _Look(fingerprint.columns, lsn) for name, fingerprint in prints.items()}

    def _agrees(self, name: str, now: Fingerprint) -> bool:
        return name in self._looks and self._looks[name].columns == now.columns

    def _altered(self, found: Sequence[CatalogTable], now: dict[str, Fingerprint]) -> tuple[Altered, ...]:
        if not found:
            return ()
        tables, relations = self.capture.tables(), self.capture.relations(found)
        later = self.capture.prints()
        altered = []
        for one, relation in zip(found, relations, strict=True):
            name = one.table.spelled()
            if name in later and later[name].columns == now[name].columns:
                rules = tables.rules_of(one.table.schema or "", one.table.name)
                altered.append(Altered(one.table, PublishedTable(relation, rules).schema_text, now[name].columns))
        return tuple(altered)
