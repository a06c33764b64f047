"""Positions at which the state of a table is unknown, because changes are missing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from changeling.iceberg.conditions import at_most, below, equals, is_set
from changeling.model import times
from changeling.model.errors import UsageError
from changeling.replicas.logged_changes import Changes, after, is_placed, of_table
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


def check_was_known(changes: Changes, identity: Identity, limit: str, wanted: str) -> None:
    """Raises `UsageError` where the state before a position is not known since the first snapshot of the table is later.

    It is known all the same where every row of the table's snapshots had a change before: they brought nothing new. A row that is
    new in a snapshot was there before without a change, so the changes before it are not all of the table. Without a key it
    cannot be told which row is new.
    """
    own = changes.where(of_table(identity.source, identity.table))
    first = own.where(equals("op", "read")).min_by("position")
    if first is None or limit >= after(first[0]):
        return
    has_earlier = own.where(below("position", first[0]), is_set("key")).any_value("key") is not None
    if has_earlier and not own.has_new_reads():
        return
    # Where clocks run backwards, the snapshot's own time may be earlier than that of a change before it.
    reached = changes.where(equals("source", identity.source), is_placed(), at_most("position", first[0]))
    known_from = reached.max_by("commit_time")
    if known_from is not None:
        Unknown("", after(first[0]), known_from[0]).check(identity, limit, wanted)
