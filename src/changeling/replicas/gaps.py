"""Positions at which the state of a table is unknown, because changes are missing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from changeling.model import times
from changeling.model.errors import UsageError
from changeling.replicas.replica_reader import Identity


@dataclass(frozen=True)
class Unknown:
    """States that end at `start` or later, and before `end`, are not known."""

    start: str
    end: str
    until: int
    """The time of the snapshot that ends it, in nanoseconds."""

    def check(self, identity: Identity, limit: str, wanted: str) -> None:
        """Raises `UsageError` where the state before a position is not known."""
        if not self.start <= limit < self.end:
            return
        until = times.to_text(self.until)
        if self.start:
            raise UsageError(
                f"{wanted} lies where changes of {identity.table} were lost with the slot of its source; it is known again "
                f"from {until} on"
            )
        raise UsageError(f"{wanted} lies before the snapshot that {identity.table} is known from: {until}")


UnknownOf: TypeAlias = Callable[[Identity], Sequence[Unknown]]


def nothing_unknown(identity: Identity) -> Sequence[Unknown]:
    """For tables that are completely known from their changes."""
    return ()
