"""The tables of which a snapshot is in the log: as they were then, and what the stream has shown of them since."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from changeling.model.table import TableName
from changeling.postgres.catalog import Found
from changeling.postgres.descriptions import from_texts
from changeling.postgres.drift import Drift, Snapshotted
from changeling.postgres.fingerprint import Fingerprint
from changeling.sources.postgres_plan import Snapshot
from changeling.sources.postgres_snapshot import SnapshotGoingOn


class KnownTables:
    """By their spelled names."""

    def __init__(self, kept: str | None) -> None:
        """`kept` is what `note` gave last."""
        self._prints: dict[str, Fingerprint] = {}
        self._points: dict[str, int] = {}
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

    def note(self, notes: Sequence[str], going_on: SnapshotGoingOn | None) -> str:
        """Takes what the stream described; returns what has to be kept of it. Nothing changes where it is noted twice."""
        known = [self._snapshotted(name) for name in self._prints]
        if going_on is not None:
            prints, point = going_on.held.prints, going_on.point.lsn
            known += [_snapshotted(name, made, point) for name, made in prints.items()]
        self._drift.note(from_texts(notes), known)
        return msgspec.json.encode(self._drift).decode()

    def outdated(self, found: Sequence[Found], now: Mapping[str, Fingerprint]) -> Iterator[Found]:
        """The tables without a snapshot, and those of which rows changed since although no change in the log says so."""
        for one in found:
            name = one.table.spelled()
            before = self._prints.get(name)
            if before is None or now[name].outdates(before) or self._drifted(name, now[name]):
                yield one

    def gone(self, found: Sequence[Found]) -> list[str]:
        """The tables that are not there any more; each is reported once."""
        gone = sorted(self._prints.keys() - {one.table.spelled() for one in found} - self._reported_gone)
        self._reported_gone.update(gone)
        return gone

    def _drifted(self, name: str, now: Fingerprint) -> bool:
        return self._drift.outdates(self._snapshotted(name), now)

    def _snapshotted(self, name: str) -> Snapshotted:
        return _snapshotted(name, self._prints[name], self._points[name])


def _snapshotted(name: str, made: Fingerprint, point: int) -> Snapshotted:
    table = TableName.parse(name)
    return Snapshotted(table.schema or "", table.name, made, point)
