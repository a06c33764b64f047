"""Listeners: what a run reports, a listener that ignores all of it, and one that passes it on to several."""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from changeling.feeds.publish import FeedReport
    from changeling.log.ingest import Report
    from changeling.replicas.merge import Report as Merged
    from changeling.sources.source import PlanSize
    from changeling.targets.postgres_target import TargetReport


class PartListener(Protocol):
    """Receives what happens to a part of a pipeline: a source, the replicas, a target, a feed."""

    def warns(self, source: str, text: str) -> None:
        """Something that a user should know."""

    def fails(self, part: str, error: str) -> None:
        """A part failed."""

    def recovers(self, part: str) -> None:
        """A part that failed works again."""


class TargetListener(PartListener, Protocol):
    """Receives what happens to targets."""

    def mirrored(self, report: "TargetReport") -> None:
        """A target is at a new point."""


class FeedListener(PartListener, Protocol):
    """Receives what happens to feeds."""

    def published(self, report: "FeedReport") -> None:
        """Records are in the topic of a feed."""

    def copied(self, feed: str, records: int, place: str) -> None:
        """Records of a feed are in Kafka or in files."""


class Listener(TargetListener, FeedListener, Protocol):
    """Receives the events of a run, to show, log or count them."""

    def prepares(self, what: str) -> None:
        """What a run does before it reads, such as starting Spark."""

    def looks(self, source: str) -> None:
        """A source is asked for its next batch."""

    def starts(self, source: str, batch: int, size: "PlanSize") -> None:
        """A batch is about to be read."""

    def done(self, report: "Report") -> None:
        """A batch is in the log."""

    def merges(self) -> None:
        """What is new in the log is about to be merged into the replicas."""

    def merged(self, report: "Merged") -> None:
        """The replicas are at a new point."""

    def rests(self, part: str) -> None:
        """A source has nothing new, or `replicas` and what follows them are where the log was."""

    def waits(self, seconds: float) -> None:
        """Everything available has been read; the next poll is in `seconds`."""

    def reloads(self, taken: Sequence[str], left: Sequence[str]) -> None:
        """The pipeline file has changed: what was applied, and what was not."""


class SilentListener:
    """Ignores every event: a base for listeners that wait for a few."""

    def warns(self, source: str, text: str) -> None:
        """Does nothing."""

    def fails(self, part: str, error: str) -> None:
        """Does nothing."""

    def recovers(self, part: str) -> None:
        """Does nothing."""

    def mirrored(self, report: "TargetReport") -> None:
        """Does nothing."""

    def published(self, report: "FeedReport") -> None:
        """Does nothing."""

    def copied(self, feed: str, records: int, place: str) -> None:
        """Does nothing."""

    def prepares(self, what: str) -> None:
        """Does nothing."""

    def looks(self, source: str) -> None:
        """Does nothing."""

    def starts(self, source: str, batch: int, size: "PlanSize") -> None:
        """Does nothing."""

    def done(self, report: "Report") -> None:
        """Does nothing."""

    def merges(self) -> None:
        """Does nothing."""

    def merged(self, report: "Merged") -> None:
        """Does nothing."""

    def rests(self, part: str) -> None:
        """Does nothing."""

    def waits(self, seconds: float) -> None:
        """Does nothing."""

    def reloads(self, taken: Sequence[str], left: Sequence[str]) -> None:
        """Does nothing."""


class Listeners:
    """Passes every event on to several listeners, in their order, one event at a time: they come from several threads."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners
        self._passing = threading.Lock()

    def warns(self, source: str, text: str) -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.warns(source, text)

    def fails(self, part: str, error: str) -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.fails(part, error)

    def recovers(self, part: str) -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.recovers(part)

    def mirrored(self, report: "TargetReport") -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.mirrored(report)

    def published(self, report: "FeedReport") -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.published(report)

    def copied(self, feed: str, records: int, place: str) -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.copied(feed, records, place)

    def prepares(self, what: str) -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.prepares(what)

    def looks(self, source: str) -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.looks(source)

    def starts(self, source: str, batch: int, size: "PlanSize") -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.starts(source, batch, size)

    def done(self, report: "Report") -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.done(report)

    def merges(self) -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.merges()

    def merged(self, report: "Merged") -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.merged(report)

    def rests(self, part: str) -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.rests(part)

    def waits(self, seconds: float) -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.waits(seconds)

    def reloads(self, taken: Sequence[str], left: Sequence[str]) -> None:
        """To each of them."""
        with self._passing:
            for one in self._listeners:
                one.reloads(taken, left)
