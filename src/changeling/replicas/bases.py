"""States of replicas that a fold may begin with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from changeling.log.log_tables import DROPPED
from changeling.replicas.points import Points
from changeling.replicas.replica_reader import Replica

LogProperties: TypeAlias = Callable[[], Mapping[str, str]]
"""The properties of the log's table, as they are now."""


@dataclass(frozen=True)
class Base:
    """A state to begin with: all changes up to a position, as a snapshot has them; nothing without one."""

    position: str = ""
    snapshot: int | None = None


class Bases:
    """Finds the nearest state to begin with."""

    def __init__(self, points: Points, log_properties: LogProperties) -> None:
        self._points, self._log_properties = points, log_properties

    def before(self, replica: Replica, position: str, there: set[int]) -> Base | None:
        """The newest state of a replica that ends before a position and that nothing disturbed; None where none is kept.

        `there` are the snapshots that the replica still has.
        """
        source = replica.identity.source
        for point in self._points.valid_bases(source, position):
            snapshot = replica.snapshot_in(point.tables)
            if snapshot is None:
                break
            merged_to = point.of(source).position
            if merged_to is not None and snapshot in there:
                return Base(merged_to, snapshot)
        return Base() if self.log_is_whole() else None

    def log_is_whole(self) -> bool:
        """Whether the log still has every change that was ever ingested."""
        return DROPPED not in self._log_properties()
