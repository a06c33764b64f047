"""The snapshots of replicas at points, kept as what changed from one to the next: points are many, and so are replicas."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping


class TableSnapshots(Mapping[str, int]):
    """The snapshot of each replica at one point, by the replica's name. Points that follow each other share what they store."""

    def __init__(self) -> None:
        self._point = 0
        self._numbers: dict[str, list[int]] = {}
        """Of each replica, the points at which its snapshot changed."""
        self._snapshots: dict[str, list[int | None]] = {}
        """Of each replica, its snapshots from those points on; None where it has none any longer."""
        self.entries = 0
        """How many are stored, up to this point."""

    def with_changes(self, point: int, changed: Mapping[str, int | None]) -> "TableSnapshots":
        """The snapshots at a later point than all that are stored."""
        made = TableSnapshots()
        made._point, made._numbers, made._snapshots = point, self._numbers, self._snapshots
        made.entries = self.entries + len(changed)
        for name, snapshot in changed.items():
            self._numbers.setdefault(name, []).append(point)
            self._snapshots.setdefault(name, []).append(snapshot)
        return made

    def __getitem__(self, name: str) -> int:
        place = bisect_right(self._numbers.get(name, ()), self._point)
        snapshot = self._snapshots[name][place - 1] if place else None
        if snapshot is None:
            raise KeyError(name)
        return snapshot

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._numbers if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
