"""How far a source is after a batch."""

from datetime import datetime

import msgspec

from changeling.log.source_state import SourceState
from changeling.log.task_result import Outcome


def advanced(before: SourceState, batch: int, outcome: Outcome, moment: datetime, replayed: bool) -> SourceState:
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
    newest = outcome.newest
    if newest is None or (before.commit_time or newest.commit_time) > newest.commit_time:
        return state
    return msgspec.structs.replace(
        state,
        commit_time=newest.commit_time,
        log_lag=ingested * 1000 - newest.commit_time,
        extraction_lag=None if newest.extracted is None else newest.extracted - newest.commit_time,
    )


def micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond
