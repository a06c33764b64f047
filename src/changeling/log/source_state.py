"""How far each source is: stored in the summary of the snapshot that adds the batch, so that both are committed atomically."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from changeling.iceberg.table_definition import TableDefinition

if TYPE_CHECKING:
    from changeling.log.task_result import Outcome

PROPERTY = "changeling.state"
"""The entry of a snapshot's summary. It covers every source, not only the one whose batch the snapshot adds."""

STATE_TAG = "changeling-state"
"""Maintenance tags the newest snapshot that has the entry, so that it never expires."""


class SourceState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Totals of one source up to and with its batch of that number: read = accepted + rejected, always."""

    batch: int = 0
    read: int = 0
    accepted: int = 0
    rejected: int = 0
    changes: int = 0
    late: int = 0
    """Changes whose position is before one of an earlier batch."""
    ahead: int = 0
    """Changes whose commit time lies after their arrival."""
    position: str | None = None
    """The furthest position."""
    commit_time: int | None = None
    """Of the newest change, in nanoseconds."""
    log_lag: int | None = None
    """From the newest change's commit to the log, in nanoseconds."""
    extraction_lag: int | None = None
    """From the newest change's commit to its extraction, where the dialect carries it, in nanoseconds."""
    ingested_at: int | None = None
    """When the last batch was read, in microseconds."""
    own_state: str | None = msgspec.field(default=None, name="kept")
    """What the source itself has to know of its batches in addition to their plans."""


class State(msgspec.Struct, frozen=True):
    """All sources."""

    sources: dict[str, SourceState] = {}

    def of(self, source: str) -> SourceState:
        """The state of one; all zero before its first batch."""
        return self.sources.get(source, SourceState())

    def batch(self, source: str) -> int:
        """The last batch in the log."""
        return self.of(source).batch

    def with_source(self, name: str, state: SourceState) -> "State":
        """The same with one source advanced."""
        return State({**self.sources, name: state})

    def to_text(self) -> str:
        """For the summary."""
        return msgspec.json.encode(self).decode()


class Summarised(Protocol):
    """Tables whose snapshots have summaries: through Spark, or without it."""

    def summaries(self, table: TableDefinition, tag: str) -> Iterable[Mapping[str, Any]]:
        """From the newest back, and that of the tagged one."""


def stored_state(tables: Summarised, table: TableDefinition) -> State:
    """How far each source is, by the snapshots of a table."""
    return newest(tables.summaries(table, STATE_TAG))


def newest(summaries: Iterable[Mapping[str, Any]]) -> State:
    """The state of a table, given the summaries of its snapshots from the newest back.

    Snapshots of maintenance have none; maintenance keeps the newest that does.
    """
    for summary in summaries:
        if text := summary.get(PROPERTY):
            return msgspec.json.decode(text, type=State)
    return State()


def advanced(before: SourceState, batch: int, outcome: "Outcome", moment: datetime, replayed: bool) -> SourceState:
    """The state of a source with one more batch, which was read at a given time; `replayed`: its records were rejects before."""
    accepted = outcome.read - outcome.rejected
    ingested = micros(moment)
    state = msgspec.structs.replace(
        before,
        batch=batch,
        read=before.read + (0 if replayed else outcome.read),
        accepted=before.accepted + accepted,
        rejected=before.rejected + (-accepted if replayed else outcome.rejected),
        changes=before.changes + outcome.changed,
        late=before.late + outcome.late,
        ahead=before.ahead + outcome.ahead,
        position=max(filter(None, (before.position, outcome.position)), default=None),
        ingested_at=ingested,
    )
    last = outcome.newest
    if last is None or (before.commit_time or last.commit_time) > last.commit_time:
        return state
    return msgspec.structs.replace(
        state,
        commit_time=last.commit_time,
        log_lag=ingested * 1000 - last.commit_time,
        extraction_lag=None if last.extracted is None else last.extracted - last.commit_time,
    )


def micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond
