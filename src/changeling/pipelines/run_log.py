"""The log of a run: every event as one record of Python's `logging`, of the logger `changeling.run`.

A record has the sentence for people as its message, and the same as data: `event`, `pipeline`, and `members` with what the event has.
"""

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from changeling.model.printable import counted, printable
from changeling.pipelines.listener import Listener

if TYPE_CHECKING:
    from changeling.feeds.publish import FeedReport
    from changeling.log.ingest import BatchReport
    from changeling.log.schema_registry import Version
    from changeling.replicas.merge import MergeReport
    from changeling.sources.source import PlanSize
    from changeling.targets.postgres_target import TargetReport

LOGGER = logging.getLogger("changeling.run")
# Programs that use Changeling decide themselves what becomes of its log.
logging.getLogger("changeling").addHandler(logging.NullHandler())

_RATED = 1000
"""Records from which on their number in a second means something."""


class RunLog(Listener):
    """Logs what happens, but for polls and idling, which come every second, and failures, each of which has its warning."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._waiting = False

    def log(self, level: int, event: str, text: str, **members: Any) -> None:
        """One event; members that are None are left out."""
        known = {name: value for name, value in members.items() if value is not None}
        LOGGER.log(level, "%s", text, extra={"event": event, "pipeline": self._pipeline, "members": known})

    def on_prepare(self, what: str) -> None:
        """`preparing`."""
        self.log(logging.INFO, "preparing", what)

    def on_batch_start(self, source: str, batch: int, size: "PlanSize") -> None:
        """`reading`."""
        self._waiting = False
        members: dict[str, Any] = {"files": size.files, "bytes": size.bytes, "records": size.records}
        self.log(
            logging.DEBUG, "reading", f"{source} batch {batch}: reading {size}", source=source, batch=batch, **members
        )

    def on_batch_done(self, report: "BatchReport") -> None:
        """`batch`, a warning where records were rejected, and `schema` for each new one."""
        self._waiting = False
        outcome, source, batch = report.outcome, report.source, report.batch
        parts = [counted(outcome.read, "record"), counted(outcome.changed, "change")]
        parts += [f"{outcome.rejected:,} rejected"] * bool(outcome.rejected)
        parts += [f"{outcome.late:,} late"] * bool(outcome.late)
        speed = rate(outcome.read, report.seconds)
        text = f"{source} batch {batch}: {_stage(report.size)}{', '.join(parts)} in {report.seconds:.1f} s"
        self.log(
            logging.WARNING if outcome.rejected else logging.INFO,
            "batch",
            text + (f", {speed} a second" if speed else ""),
            source=source,
            batch=batch,
            read=outcome.read,
            accepted=outcome.read - outcome.rejected,
            rejected=outcome.rejected,
            changes=outcome.changed,
            late=outcome.late,
            seconds=round(report.seconds, 3),
        )
        for version in report.schemas:
            self._schema(source, batch, version)

    def _schema(self, source: str, batch: int, version: "Version") -> None:
        note = f": {version.note}" if version.note else ""
        self.log(
            logging.WARNING if version.incompatible else logging.INFO,
            "schema",
            f"  schema {version.id}: {version.table} version {version.version}, {version.origin}, {version.status}{note}",
            source=source,
            batch=batch,
            table=str(version.table),
            schema_id=version.id,
            version=version.version,
            origin=version.origin,
            status=version.status,
            note=version.note,
        )

    def on_merge_start(self) -> None:
        """`merging`."""
        self.log(logging.DEBUG, "merging", "replicas: merging what is new in the log")

    def on_merge_done(self, report: "MergeReport") -> None:
        """`merge`, where replicas were changed; a warning where something was quarantined."""
        tables = report.tables
        if not tables:
            return
        changes, late, quarantined = (
            sum(getattr(table, name) for table in tables) for name in ("changes", "late", "quarantined")
        )
        parts = [f"{counted(changes, 'change')} in {counted(len(tables), 'table')}"]
        parts += [f"{late:,} late"] * bool(late)
        parts += [f"{quarantined:,} quarantined"] * bool(quarantined)
        self.log(
            logging.WARNING if quarantined else logging.INFO,
            "merge",
            f"replicas: point {report.point.number}, {', '.join(parts)} in {report.seconds:.1f} s",
            point=report.point.number,
            changes=changes,
            late=late,
            quarantined=quarantined,
            tables=[
                {"source": table.source, "table": str(table.table), "changes": table.changes, "late": table.late}
                for table in tables
            ],
            seconds=round(report.seconds, 3),
        )

    def on_target_synced(self, report: "TargetReport") -> None:
        """`target`."""
        written, deleted = sum(one.written for one in report.tables), sum(one.deleted for one in report.tables)
        self.log(
            logging.INFO,
            "target",
            f"target {report.target}: point {report.point.number}, {counted(written, 'row')} written, {deleted:,} deleted "
            f"in {report.seconds:.1f} s",
            target=report.target,
            point=report.point.number,
            written=written,
            deleted=deleted,
            seconds=round(report.seconds, 3),
        )

    def on_feed_published(self, report: "FeedReport") -> None:
        """`feed`, where the commit has records, or changes were rejected."""
        if not report.records and not report.rejected:
            return
        kind = "row of the initial scan" if report.scanned else "change"
        parts = [counted(report.changes, kind, "rows of the initial scan" if report.scanned else None)]
        parts += [f"{report.late:,} late"] * bool(report.late)
        parts += [f"{report.rejected:,} rejected"] * bool(report.rejected)
        self.log(
            logging.WARNING if report.rejected else logging.INFO,
            "feed",
            f"feed {report.feed}: point {report.point}, {', '.join(parts)} as {counted(report.records, 'record')}"
            + ("; `changeling rejects` shows why" if report.rejected else ""),
            feed=report.feed,
            point=report.point,
            changes=report.changes,
            records=report.records,
            late=report.late,
            rejected=report.rejected,
            scanned=report.scanned,
        )

    def on_feed_copied(self, feed: str, records: int, place: str) -> None:
        """`copy`."""
        text = f"feed {feed}: {counted(records, 'record')} to {place}"
        self.log(logging.INFO, "copy", text, feed=feed, records=records, place=place)

    def on_warning(self, source: str, text: str) -> None:
        """`warning`."""
        self.log(logging.WARNING, "warning", f"{source}: {text}", source=source)

    def on_recovery(self, part: str) -> None:
        """`recovered`."""
        self.log(logging.INFO, "recovered", f"{part}: works again", source=part)

    def on_wait(self, seconds: float) -> None:
        """`waiting`, once after each batch."""
        if not self._waiting:
            self._waiting = True
            self.log(logging.DEBUG, "waiting", f"all read; next look in {seconds:g} s", seconds=seconds)

    def on_reload(self, taken: Sequence[str], left: Sequence[str]) -> None:
        """`reloaded`, a warning where something was not applied."""
        parts = [f"applied: {', '.join(taken)}"] * bool(taken) + [f"not applied: {'; '.join(left)}"] * bool(left)
        self.log(
            logging.WARNING if left else logging.INFO,
            "reloaded",
            f"the pipeline file has changed; {'; '.join(parts)}"
            if parts
            else "the pipeline file was saved without changes",
            taken=list(taken),
            left=list(left),
        )


def rate(records: int, seconds: float) -> str:
    """How many a second; empty for too few to tell."""
    return f"{records / max(seconds, 0.001):,.0f}" if records >= _RATED else ""


def _stage(size: "PlanSize") -> str:
    return f"{size.snapshot}, " if size.snapshot is not None else ""


class JsonLines(logging.Formatter):
    """One object a record: time, level, event, pipeline, what the event has, and the sentence for people as `text`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        event = {"time": _time(record), "level": record.levelname.lower()}
        for name in ("event", "pipeline"):
            if hasattr(record, name):
                event[name] = getattr(record, name)
        return json.dumps({**event, **getattr(record, "members", {}), "text": record.getMessage().strip()})


class TextLines(logging.Formatter):
    """`2026-01-02T03:04:05.678Z WARNING shop: drop batch 1: …`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        pipeline = getattr(record, "pipeline", record.name)
        return printable(f"{_time(record)} {record.levelname:<7} {pipeline}: {record.getMessage().strip()}")


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
