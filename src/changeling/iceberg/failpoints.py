"""Failpoints: places where a run can be made to fail, so that tests can show that nothing is lost or duplicated there.

`CHANGELING_FAILPOINT=changes.before` raises at that place, `changes.before=kill` kills the process as a power cut would;
`changes.before@3` waits for the third time.
"""

import os
import signal
import threading

FAILPOINTS = (
    "plan.before",
    "plan.after",
    "schemas.before",
    "schemas.after",
    "read.after",
    "rejects.before",
    "rejects.after",
    "changes.before",
    "changes.after",
    "replay.before",
    "replay.after",
    "quarantine.before",
    "quarantine.after",
    "replica.before",
    "replica.after",
    "point.before",
    "point.after",
    "target.staged",
    "target.before",
    "target.after",
    "feed.before",
    "feed.after",
    "scan.before",
    "scan.after",
    "retention.before",
    "retention.after",
    "kafka.sent",
    "kafka.committed",
    "files.planned",
    "files.staged",
    "files.written",
    "relocate.file",
    "relocate.before",
)
_VARIABLE = "CHANGELING_FAILPOINT"
_passed: dict[str, int] = {}
_passing = threading.Lock()


class FailpointReached(RuntimeError):
    """Raised on demand only."""


def reach(point: str) -> None:
    """Fails here where the environment asks for it."""
    wanted = os.environ.get(_VARIABLE)
    if not wanted:
        return
    assert point in FAILPOINTS, point
    place, _, action = wanted.partition("=")
    place, _, count = place.partition("@")
    if place != point:
        return
    with _passing:
        _passed[wanted] = _passed.get(wanted, 0) + 1
        if _passed[wanted] < int(count or 1):
            return
        del _passed[wanted]
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise FailpointReached(point)
