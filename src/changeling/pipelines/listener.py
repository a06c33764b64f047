"""Listeners: what a run reports while it goes on, and a listener that ignores all of it."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from changeling.feeds.publish import FeedReport
    from changeling.log.ingest import Report
    from changeling.replicas.merge import Report as Merged
    from changeling.sources.source import Spread
    from changeling.targets.postgres_target import TargetReport


class TargetListener(Protocol):
    """Receives what happens to targets."""

    def mirrored(self, report: "TargetReport") -> None:
        """A target is at a new point."""

    def warns(self, source: str, text: str) -> None:
        """Something that a user should know."""


class FeedListener(Protocol):
    """Receives what happens to feeds."""

    def published(self, report: "FeedReport") -> None:
        """Records are in the topic of a feed."""

    def copied(self, feed: str, records: int, place: str) -> None:
        """Records of a feed are in Kafka or in files."""

    def warns(self, source: str, text: str) -> None:
        """Something that a user should know."""


class Listener(TargetListener, FeedListener, Protocol):
    """Receives the events of a run, to show them."""

    def starts(self, source: str, batch: "Spread") -> None:
        """A batch is about to be read."""

    def done(self, report: "Report") -> None:
        """A batch is in the log."""

    def merged(self, report: "Merged") -> None:
        """The replicas are at a new point."""

    def waits(self) -> None:
        """Everything available has been read."""


class SilentListener:
    """Ignores every event: the default for Python callers."""

    def starts(self, source: str, batch: "Spread") -> None:
        """Does nothing."""

    def done(self, report: "Report") -> None:
        """Does nothing."""

    def merged(self, report: "Merged") -> None:
        """Does nothing."""

    def mirrored(self, report: "TargetReport") -> None:
        """Does nothing."""

    def published(self, report: "FeedReport") -> None:
        """Does nothing."""

    def copied(self, feed: str, records: int, place: str) -> None:
        """Does nothing."""

    def warns(self, source: str, text: str) -> None:
        """Does nothing."""

    def waits(self) -> None:
        """Does nothing."""
