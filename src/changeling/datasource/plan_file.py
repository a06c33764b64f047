"""The plans of a stream, one a line: written before anything is read, so that the same offset always means the same records.

A Python source learns from Spark neither how far its checkpoint is nor where it is stored: a stream that starts again reads from this file
what it has planned, and plans only what comes after.
"""

import fcntl
import os
from pathlib import Path

from changeling.model.errors import ChangelingError, UsageError


class PlanFile:
    """The file of one stream; it is locked while the stream runs."""

    def __init__(self, path: str) -> None:
        if "://" in path:
            raise UsageError(f"plans = {path}: plans are kept in a file of a local or mounted file system")
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self._path, "a+b")  # noqa: SIM115  # closed with the stream
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise ChangelingError(
                f"{path} has the plans of a stream that runs: each stream needs a file of its own"
            ) from None
        self._file.seek(0)
        whole = self._file.read()
        end = whole.rfind(b"\n") + 1
        # A line that was cut off by a crash never reached Spark.
        self._file.truncate(end)
        self._plans = [line.decode() for line in whole[:end].splitlines()]

    def __len__(self) -> int:
        return len(self._plans)

    def all(self) -> list[str]:
        """All plans, oldest first."""
        return list(self._plans)

    def between(self, start: int, end: int) -> list[str]:
        """The plans after the first `start` up to the `end`-th; raises `ChangelingError` where the file has fewer."""
        if end < start or end > len(self._plans):
            raise ChangelingError(
                f"{self._path} has {len(self._plans)} plans, and the checkpoint of the stream is at {max(start, end)}: "
                "they do not belong together. Give the stream its own file, or begin again with a new checkpoint and a new file"
            )
        return self._plans[start:end]

    def add(self, plan: str) -> None:
        """Adds a plan for good."""
        self._file.seek(0, os.SEEK_END)
        self._file.write(plan.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._plans.append(plan)

    def close(self) -> None:
        """Lets others have the file."""
        self._file.close()
