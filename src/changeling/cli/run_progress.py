"""The output of a run: a line an event, on terminals what it is doing, and a summary at the end."""

import json
import logging
import sys
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.text import Text

from changeling.cli.display import duration, show_table, table
from changeling.cli.run_activity import RunActivity
from changeling.model.printable import printable, printable_lines
from changeling.pipelines.listener import Listener
from changeling.pipelines.run_log import LOGGER, JsonLines, TextLines, rate

if TYPE_CHECKING:
    from changeling.feeds.publish import FeedReport
    from changeling.pipelines.source_run import Totals

LogFormat = Literal["text", "json"]
_NANOS = 1_000_000_000
_STYLES = {logging.WARNING: "yellow", logging.ERROR: "red"}
_REFRESHED = 0.5
"""Seconds."""


class Shown(RunActivity):
    """Prints the log of a run: for people where standard error is a terminal and no format is asked for, else as lines.

    `on_stdout`: the lines are the output of the command.
    """

    def __init__(
        self,
        pipeline: str,
        lines: LogFormat | None = None,
        *,
        level: int = logging.INFO,
        on_stdout: bool = False,
    ) -> None:
        super().__init__(f"{pipeline}: starting")
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.for_people = lines is None and self._console.is_terminal
        self._handler = _Printed(self._console) if self.for_people else _written(lines or "text", on_stdout=on_stdout)
        self._handler.setLevel(level)
        self._shows = self._console.is_terminal and (self.for_people or (on_stdout and not sys.stdout.isatty()))
        self._status = self._console.status(f"{pipeline}: starting")
        self._watch: threading.Thread | None = None
        self._ended = threading.Event()
        self._level = LOGGER.level

    def __enter__(self) -> "Shown":
        LOGGER.setLevel(self._handler.level)
        LOGGER.addHandler(self._handler)
        if self._shows:
            self._status.start()
            self._watch = threading.Thread(target=self._watched, daemon=True)
            self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._watch is not None:
            self._watch.join()
        self._status.stop()
        LOGGER.removeHandler(self._handler)
        LOGGER.setLevel(self._level)

    def _watched(self) -> None:
        while not self._ended.wait(_REFRESHED):
            self._status.update(Text(printable(self.line(_tasks))))


class _Printed(logging.Handler):
    """Lines for people, above what a run is doing."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a record in the colour of its level."""
        text = record.getMessage()
        style = _STYLES.get(record.levelno, "dim" if record.levelno < logging.INFO or text.startswith(" ") else "")
        self._console.print(printable_lines(text), style=style, markup=False)


def _written(lines: LogFormat, *, on_stdout: bool) -> logging.Handler:
    handler = logging.StreamHandler(sys.stdout if on_stdout else sys.stderr)
    handler.setFormatter(JsonLines() if lines == "json" else TextLines())
    return handler


def _tasks() -> tuple[int, int]:
    """How many tasks of the active jobs are done, and how many there are."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return 0, 0
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    found = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found)


class FeedRejects(Listener):
    """Counts the changes that feeds could not publish, by feed."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def on_feed_published(self, report: "FeedReport") -> None:
        """Counts those of a commit."""
        if report.rejected:
            self.counts[report.feed] = self.counts.get(report.feed, 0) + report.rejected


def summary(totals: "Iterable[Totals]") -> None:
    """A table on standard output."""
    names = ("batches", "read", "accepted", "rejected", "changes", "late", "records/s", "to log")
    shown = table("source", numbers=names)
    for total in totals:
        numbers = (total.batches, total.read, total.accepted, total.rejected, total.changes, total.late)
        speed = rate(total.read, total.seconds)
        shown.add_row(total.source, *(f"{number:,}" for number in numbers), speed, duration(total.state.log_lag))
    show_table(shown)


def summary_lines(pipeline: str, totals: "Iterable[Totals]", refused: Mapping[str, int]) -> list[str]:
    """A line of JSON a source, and one a feed that rejected changes."""
    feeds = [
        json.dumps({"event": "total", "pipeline": pipeline, "feed": feed, "rejected": rejected})
        for feed, rejected in refused.items()
    ]
    sources = [
        json.dumps(
            {
                "event": "total",
                "pipeline": pipeline,
                "source": total.source,
                "batches": total.batches,
                "read": total.read,
                "accepted": total.accepted,
                "rejected": total.rejected,
                "changes": total.changes,
                "late": total.late,
                "seconds": round(total.seconds, 3),
                "lag_seconds": None if total.state.log_lag is None else total.state.log_lag / _NANOS,
                "left_out": total.left_out,
            }
        )
        for total in totals
    ]
    return sources + feeds
