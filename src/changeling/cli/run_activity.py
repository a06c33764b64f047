"""What the parts of a run are doing at present, as one line for a terminal."""

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from changeling.pipelines.listener import Listener

if TYPE_CHECKING:
    from changeling.log.ingest import BatchReport
    from changeling.sources.source import PlanSize

_REPLICAS = "replicas"
_MAX = 3
"""Parts that are named; of the others, how many there are."""


class RunActivity(Listener):
    """A listener that knows what each part does. Another thread may ask it for the line at any time."""

    def __init__(self, first: str) -> None:
        self._doing: dict[str, str] = {}
        """By part, in the order in which they began; replaced as a whole."""
        self._otherwise: Callable[[], str] = lambda: first
        self._begun = False
        self._failing: frozenset[str] = frozenset()

    def line(self, spark_tasks: Callable[[], tuple[int, int]]) -> str:
        """All of it; `spark_tasks` says how many tasks of Spark's active jobs are done, and how many there are."""
        doing = list(self._doing.values())
        if not doing:
            return self._otherwise()
        done, tasks = spark_tasks()
        more = [f"{len(doing) - _MAX} more"] * (len(doing) > _MAX)
        progress = [f"{done:,} of {tasks:,} tasks done"] * (tasks > 0)
        return "; ".join([*doing[:_MAX], *more, *progress])

    def on_prepare(self, what: str) -> None:
        """Shown until something is read."""
        self._otherwise = lambda: what

    def on_poll(self, source: str) -> None:
        """Shown while a source is asked for the first time; after that it is asked every second."""
        if not self._begun:
            self._otherwise = lambda: f"{source}: looking for what is new"

    def on_batch_start(self, source: str, batch: int, size: "PlanSize") -> None:
        """Shown during the batch."""
        self._begins(source, f"{source}: reading {size}")

    def on_batch_done(self, report: "BatchReport") -> None:
        """The batch is in the log."""
        self.on_idle(report.source)

    def on_merge_start(self) -> None:
        """Shown during the merge, and while targets and feeds are moved."""
        self._begins(_REPLICAS, "replicas: merging what is new")

    def on_idle(self, part: str) -> None:
        """It does nothing any more."""
        self._doing = {name: text for name, text in self._doing.items() if name != part}

    def on_failure(self, part: str, error: str) -> None:
        """Shown until it works again, while nothing else is done."""
        self._failing |= {part}

    def on_recovery(self, part: str) -> None:
        """It works again."""
        self._failing -= {part}

    def on_wait(self, seconds: float) -> None:
        """Shown until there is something to do."""
        end, self._begun = monotonic() + seconds, True

        def waiting() -> str:
            left = max(1, round(end - monotonic()))
            state = f"waiting for {', '.join(sorted(self._failing))}" if self._failing else "all read"
            return f"{state}; next look in {left} s (Ctrl-C stops)"

        self._otherwise = waiting

    def _begins(self, part: str, text: str) -> None:
        self._begun = True
        self._doing = {**self._doing, part: text}
