"""Listeners: what a run reports, and a listener that passes it on to several."""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from changeling.feeds.publish import FeedReport
    from changeling.log.ingest import BatchReport
    from changeling.replicas.merge import MergeReport
    from changeling.sources.source import PlanSize
    from changeling.targets.postgres_target import TargetReport


class Listener:
    """Receives the events of a run, to show, log or count them; those that it does not override are ignored."""

    def on_prepare(self, what: str) -> None:
        """What a run does before it reads, such as starting Spark."""

    def on_poll(self, source: str) -> None:
        """A source is asked for its next batch."""

    def on_batch_start(self, source: str, batch: int, size: "PlanSize") -> None:
        """A batch is about to be read."""

    def on_batch_done(self, report: "BatchReport") -> None:
        """A batch is in the log."""

    def on_idle(self, part: str) -> None:
        """A source has nothing new, or `replicas` and what follows them are where the log was."""

    def on_wait(self, seconds: float) -> None:
        """Everything available has been read; the next poll is in `seconds`."""

    def on_merge_start(self) -> None:
        """What is new in the log is about to be merged into the replicas."""

    def on_merge_done(self, report: "MergeReport") -> None:
        """The replicas are at a new point."""

    def on_target_synced(self, report: "TargetReport") -> None:
        """A target is at a new point."""

    def on_feed_published(self, report: "FeedReport") -> None:
        """Records are in the topic of a feed."""

    def on_feed_copied(self, feed: str, records: int, place: str) -> None:
        """Records of a feed are in Kafka or in files."""

    def on_reload(self, taken: Sequence[str], left: Sequence[str]) -> None:
        """The pipeline file has changed: what was applied, and what was not."""

    def on_warning(self, source: str, text: str) -> None:
        """Something that a user should know."""

    def on_failure(self, part: str, error: str) -> None:
        """A part failed."""

    def on_recovery(self, part: str) -> None:
        """A part that failed works again."""


class Listeners(Listener):
    """Passes every event on to several listeners, in their order, one event at a time: they come from several threads."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners
        self._passing = threading.Lock()

    def _pass_on(self, event: str, *given: object) -> None:
        with self._passing:
            for one in self._listeners:
                getattr(one, event)(*given)

    def on_prepare(self, what: str) -> None:
        """To each of them."""
        self._pass_on("on_prepare", what)

    def on_poll(self, source: str) -> None:
        """To each of them."""
        self._pass_on("on_poll", source)

    def on_batch_start(self, source: str, batch: int, size: "PlanSize") -> None:
        """To each of them."""
        self._pass_on("on_batch_start", source, batch, size)

    def on_batch_done(self, report: "BatchReport") -> None:
        """To each of them."""
        self._pass_on("on_batch_done", report)

    def on_idle(self, part: str) -> None:
        """To each of them."""
        self._pass_on("on_idle", part)

    def on_wait(self, seconds: float) -> None:
        """To each of them."""
        self._pass_on("on_wait", seconds)

    def on_merge_start(self) -> None:
        """To each of them."""
        self._pass_on("on_merge_start")

    def on_merge_done(self, report: "MergeReport") -> None:
        """To each of them."""
        self._pass_on("on_merge_done", report)

    def on_target_synced(self, report: "TargetReport") -> None:
        """To each of them."""
        self._pass_on("on_target_synced", report)

    def on_feed_published(self, report: "FeedReport") -> None:
        """To each of them."""
        self._pass_on("on_feed_published", report)

    def on_feed_copied(self, feed: str, records: int, place: str) -> None:
        """To each of them."""
        self._pass_on("on_feed_copied", feed, records, place)

    def on_reload(self, taken: Sequence[str], left: Sequence[str]) -> None:
        """To each of them."""
        self._pass_on("on_reload", taken, left)

    def on_warning(self, source: str, text: str) -> None:
        """To each of them."""
        self._pass_on("on_warning", source, text)

    def on_failure(self, part: str, error: str) -> None:
        """To each of them."""
        self._pass_on("on_failure", part, error)

    def on_recovery(self, part: str) -> None:
        """To each of them."""
        self._pass_on("on_recovery", part)
