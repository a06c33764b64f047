"""The output of a run: a line a batch, the current activity, and a summary at the end."""

import json
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console

from changeling.cli.display import duration, show_table, table
from changeling.model.printable import printable_lines

if TYPE_CHECKING:
    from changeling.feeds.publish import FeedReport
    from changeling.log.ingest import Report
    from changeling.pipelines.runner import Totals
    from changeling.replicas.merge import Report as Merged
    from changeling.sources.source import Spread
    from changeling.targets.postgres_target import TargetReport

_NANOS = 1_000_000_000


class Shown:
    """Listens to a run and prints on standard error."""

    def __init__(self, pipeline: str) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._status = self._console.status(f"{pipeline}: starting Spark")
        self._waiting = False
        self._doing = ""
        self._watch: threading.Thread | None = None
        self._ended = threading.Event()

    def __enter__(self) -> "Shown":
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._watch is not None:
            self._watch.join()
        self._status.stop()

    def starts(self, source: str, batch: "Spread") -> None:
        """Shown during the batch, on terminals, with the tasks that are done."""
        self._waiting = False
        self._doing = f"{source}: reading {_size(batch)}"
        self._status.update(self._doing)
        if self._console.is_terminal and self._watch is None:
            self._watch = threading.Thread(target=self._watched, daemon=True)
            self._watch.start()

    def _watched(self) -> None:
        while not self._ended.wait(0.5):
            done, all_tasks = _tasks()
            if all_tasks and not self._waiting:
                self._status.update(f"{self._doing}, {done:,} of {all_tasks:,} tasks done")

    def done(self, report: "Report") -> None:
        """One line a batch, and one a new schema."""
        outcome, seconds = report.outcome, max(report.seconds, 0.001)
        rejected = f", [red]{outcome.rejected:,} rejected[/red]" if outcome.rejected else ""
        late = f", {outcome.late:,} late" if outcome.late else ""
        self._console.print(
            f"{report.source} batch {report.batch}: {outcome.read:,} records, {outcome.changed:,} changes{rejected}{late}"
            f" [dim]in {seconds:.1f} s, {outcome.read / seconds:,.0f} a second[/dim]"
        )
        for version in report.schemas:
            note = f": {version.note}" if version.note else ""
            style = "red" if version.status == "aside" else "dim"
            self._console.print(
                printable_lines(
                    f"  schema {version.id}: {version.table} version {version.version}, {version.origin}, "
                    f"{version.status}{note}"
                ),
                style=style,
                markup=False,
            )

    def merged(self, report: "Merged") -> None:
        """One line a point that changed replicas."""
        if not report.tables:
            return
        changes = sum(table.changes for table in report.tables)
        late = sum(table.late for table in report.tables)
        asides = sum(table.asides for table in report.tables)
        counts = [f"{changes:,} changes in {len(report.tables):,} table{'' if len(report.tables) == 1 else 's'}"]
        counts += [f"{late:,} late"] if late else []
        counts += [f"[red]{asides:,} quarantined[/red]"] if asides else []
        self._console.print(
            f"replicas: point {report.point.number}, {', '.join(counts)} [dim]in {report.seconds:.1f} s[/dim]"
        )

    def mirrored(self, report: "TargetReport") -> None:
        """One line for each sync of a target."""
        written, deleted = sum(one.written for one in report.tables), sum(one.deleted for one in report.tables)
        self._console.print(
            f"target {report.target}: point {report.point.number}, {written:,} rows written, {deleted:,} deleted "
            f"[dim]in {report.seconds:.1f} s[/dim]"
        )

    def published(self, report: "FeedReport") -> None:
        """One line for each commit to a topic that has records."""
        if report.records:
            kind = "rows of the initial scan" if report.scanned else "changes"
            more = [f"{report.late:,} late"] * bool(report.late) + [f"{report.rejected:,} rejected"] * bool(
                report.rejected
            )
            self._console.print(
                f"feed {report.feed}: point {report.point}, {', '.join([f'{report.changes:,} {kind}', *more])} "
                f"[dim]as {report.records:,} records[/dim]"
            )

    def copied(self, feed: str, records: int, place: str) -> None:
        """One line for each copy of a feed."""
        self._console.print(printable_lines(f"feed {feed}: {records:,} records to {place}"), markup=False)

    def warns(self, source: str, text: str) -> None:
        """In yellow, before the next batch."""
        self._console.print(printable_lines(f"{source}: {text}"), style="yellow", markup=False)

    def waits(self) -> None:
        """Shown once, when there is nothing to do."""
        if not self._waiting:
            self._waiting = True
            self._status.update("all read; waiting for more (Ctrl-C stops)")


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


def _size(batch: "Spread") -> str:
    parts = [
        None if batch.files is None else f"{batch.files:,} files",
        None if batch.bytes is None else f"{batch.bytes / 1_000_000:,.1f} MB",
        None if batch.records is None else f"{batch.records:,} records",
    ]
    return ", ".join(part for part in parts if part) or "rejects"


def summary(totals: "Iterable[Totals]") -> None:
    """A table on standard output."""
    names = ("batches", "read", "accepted", "rejected", "changes", "late", "records/s", "lag")
    shown = table("source", numbers=names)
    for total in totals:
        rate = f"{total.read / total.seconds:,.0f}" if total.seconds and total.read else ""
        numbers = (total.batches, total.read, total.accepted, total.rejected, total.changes, total.late)
        shown.add_row(total.source, *(f"{number:,}" for number in numbers), rate, duration(total.state.log_lag))
    show_table(shown)


def summary_lines(totals: "Iterable[Totals]") -> list[str]:
    """A line of JSON a source."""
    return [
        json.dumps(
            {
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
