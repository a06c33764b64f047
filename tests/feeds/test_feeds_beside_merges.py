"""Feeds of a run whose source brings more during every merge."""

import threading
from itertools import pairwise
from pathlib import Path

import pytest

from changeling.feeds.publish import FeedReport
from changeling.pipelines.listener import Listener
from changeling.replicas.merge import MergeReport
from tests.log.lakes import shop
from tests.replicas.shops import SOURCE, item

pytestmark = pytest.mark.usefixtures("spark")

_FILES = 12


class Seen(Listener):
    """Stops a run when its feed has published the last transaction that is known to be complete."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.seen: list[str] = []
        self._published = 0

    def on_merge_done(self, report: MergeReport) -> None:
        self.seen.append("merged")

    def on_feed_published(self, report: FeedReport) -> None:
        self.seen.append("published")
        self._published += report.changes
        if self._published == _FILES - 1:
            self.stop.set()


def test_a_feed_publishes_each_point_although_more_comes_during_every_merge(tmp_path: Path) -> None:
    feed = {"name": "f", "table": "users", "with": {"FORMAT": "JSON", "MODE": "UPDATES"}}
    made, seen = shop(tmp_path, {**SOURCE, "batch_files": 1}, settle="1h", feeds=[feed]), Seen()
    for number in range(_FILES):
        made.write(f"{number:02d}.json", item(number, "insert", {"id": 1, "name": "a", "n": number}))
    made.pipeline.run(stop=seen.stop, listener=seen)
    assert seen.seen.count("merged") > 1, "a batch came with each merge"
    assert ("merged", "merged") not in pairwise(seen.seen)
