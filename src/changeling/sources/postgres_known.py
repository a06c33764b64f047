"""The tables of which a snapshot is in the log: as they were then, and what the stream has shown of them since."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from changeling.model.table import TableName
from changeling.postgres.catalog import CatalogTable
from changeling.postgres.fingerprint import ColumnFingerprint, Fingerprint
from changeling.postgres.relation_messages import from_texts
from changeling.postgres.table_drift import Drift, SnapshottedTable
from changeling.sources.postgres_plan import Plan, Snapshot, Stream
from changeling.sources.postgres_snapshot import RunningSnapshot


class KnownTables:
    """By their spelled names."""

    def __init__(self, kept: str | None) -> None:
        """`kept` is what `note` gave last."""
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
        """All are to be read again."""
        self._prints.clear()

    def add(self, plan: Snapshot) -> None:
        """Takes the tables that are whole with a batch."""
        self._prints |= plan.prints
        self._points |= dict.fromkeys(plan.prints, plan.point)
        self._columns |= {name: made.columns for name, made in plan.prints.items()}

    def alter(self, plan: Stream) -> None:
        """Takes the schemas that are in the log with a batch."""
        self._columns |= {one.table.spelled(): one.columns for one in plan.altered}

    def note(
        self, plan: Plan, notes: Sequence[str], going_on: RunningSnapshot | None, left_out: Collection[TableName]
    ) -> str:
        """Takes what the stream described; returns what has to be kept of it. Nothing changes where it is noted twice.

        Changes of tables that are `left_out` were passed over.
        """
        known = [self._snapshotted(name) for name in self._prints]
        if going_on is not None:
            prints, point = going_on.held.prints, going_on.point.lsn
            known += [_snapshotted(name, made, point) for name, made in prints.items()]
        described = from_texts(notes)
        self._drift.note(described, known)
        if isinstance(plan, Stream):
            names = [table.spelled() for table in left_out]
            oids = {self._prints[name].oid for name in names if name in self._prints}
            self._drift.note_left_out(described, oids, plan.end)
        return msgspec.json.encode(self._drift).decode()

    def outdated(self, found: Sequence[CatalogTable], now: Mapping[str, Fingerprint]) -> Iterator[CatalogTable]:
        """The tables without a snapshot, and those of which rows changed since although no change in the log says so."""
        for one in found:
            name = one.table.spelled()
            before = self._prints.get(name)
            if before is None or now[name].outdates(before) or self._drifted(name, now[name]):
                yield one

    def reshaped(self, found: Sequence[CatalogTable], now: Mapping[str, Fingerprint]) -> Iterator[CatalogTable]:
        """The tables with other columns than the log may know, of which rows are as they were."""
        outdated = {one.oid for one in self.outdated(found, now)}
        for one in found:
            name = one.table.spelled()
            if one.oid not in outdated and self._columns[name] != now[name].columns:
                yield one

    def gone(self, there: Iterable[TableName]) -> list[str]:
        """The tables that are not there any more; each is reported once."""
        gone = sorted(self._prints.keys() - {table.spelled() for table in there} - self._reported_gone)
        self._reported_gone.update(gone)
        return gone

    def _drifted(self, name: str, now: Fingerprint) -> bool:
        return self._drift.outdates(self._snapshotted(name), now)

    def _snapshotted(self, name: str) -> SnapshottedTable:
        return _snapshotted(name, self._prints[name], self._points[name])


def _snapshotted(name: str, made: Fingerprint, point: int) -> SnapshottedTable:
    table = TableName.parse(name)
    return SnapshottedTable(table.schema or "", table.name, made, point)
