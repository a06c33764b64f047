"""Reads the records of a feed from its topic, without Spark: from any place, to the end or forever, reporting missing records."""

import base64
import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from changeling.feeds.consumers import Consumers
from changeling.feeds.feed import Feed
from changeling.feeds.topic import Topic, TopicView, offsets_text, unexpired_since
from changeling.model import json_text, times
from changeling.model.errors import ChangelingError, Rejected, UsageError
from changeling.model.json_text import quote

Start: TypeAlias = int | datetime | None
"""An offset of every partition, a time of publishing, or None for the first record that has not expired."""
_AT_ONCE = 100_000
"""About how many records are in memory at a time."""
_OFFSET_DIGITS = 18
_POLL_SECONDS = 0.1
_STORE_SECONDS = 1.0
"""How often the place of a consumer that follows a feed is stored."""


class Gap(NamedTuple):
    """Offsets of a partition that have expired or were deleted before they were read."""

    partition: int
    first: int
    until: int
    """The first offset that is there again."""

    def __str__(self) -> str:
        which = offsets_text(self.first, self.until)
        return f"{which} gone from partition {self.partition}, past retention: not read"


class FeedRecord(NamedTuple):
    """One record of a feed."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    published_at: datetime


@dataclass
class FeedReader:
    """One reader of a feed. What it was given counts as read when the next part is asked for."""

    topic: Topic
    start: Start = None
    consumers: Consumers | None = None
    consumer: str | None = None
    """Continues where it was; `start` is for partitions that it never read."""
    on_gap: Callable[[Gap], object] = lambda gap: None

    def __post_init__(self) -> None:
        self._view: TopicView | None = None
        self._next: list[int] = []
        self._stored: list[int] = []
        self._stored_at = 0.0

    def parts(
        self, *, follow: bool = False, limit: int | None = None, stop: threading.Event | None = None
    ) -> Iterator[pa.Table]:
        """The records in parts, by partition and offset in each; with `follow`, until `stop` is set.

        The place of a consumer is stored when all of a part was read.
        """
        stop, left = stop or threading.Event(), limit
        try:
            while not stop.is_set() and (left is None or left > 0):
                for part in self._new():
                    taken = part if left is None else part.slice(0, left)
                    yield taken
                    self._advance(taken)
                    left = None if left is None else left - taken.num_rows
                    if stop.is_set() or left == 0:
                        return
                if not follow:
                    return
                self._store(at_least=_STORE_SECONDS)
                stop.wait(_POLL_SECONDS)
        finally:
            self._store()

    def records(
        self, *, follow: bool = False, limit: int | None = None, stop: threading.Event | None = None
    ) -> Iterator[FeedRecord]:
        """The same, one by one. The place of a consumer is behind the last part that was read to its end."""
        for part in self.parts(follow=follow, limit=limit, stop=stop):
            yield from records_of(part)

    def _new(self) -> Iterator[pa.Table]:
        """What is there behind the place of this reader now."""
        view = self.topic.view(self._view if self._next else None)
        if self._view is not None and view.snapshot == self._view.snapshot:
            return
        if view.state is None and self._next:
            raise ChangelingError(f"feed {self.topic.feed.name} was dropped while it was read")
        if view.state is not None:
            if not self._next:
                known = self._known()
                self._next = self._begin(view, known)
                # Where a consumer begins is stored as well: it gets a report of what it missed from there on.
                self._stored = [known.get(partition, -1) for partition in range(len(self._next))]
            yield from self._behind(view, view.state.offsets)
        self._view = view

    def _known(self) -> dict[int, int]:
        """The places that are stored of the consumer."""
        if self.consumer is None or self.consumers is None:
            return {}
        return self.consumers.places(self.consumer, self.topic.feed.id)

    def _begin(self, view: TopicView, known: dict[int, int]) -> list[int]:
        assert view.state is not None
        if isinstance(self.start, int):
            begins = [self.start] * len(view.state.offsets)
        else:
            begins = view.firsts(self.start or unexpired_since(self.topic.feed))
        return [known.get(partition, begin) for partition, begin in enumerate(begins)]

    def _behind(self, view: TopicView, ends: list[int]) -> Iterator[pa.Table]:
        wanted = {one: (self._next[one], end) for one, end in enumerate(ends) if self._next[one] < end}
        if view.count(wanted) <= _AT_ONCE:
            windows = [wanted] if wanted else []
        else:
            windows = [
                {one: (first, min(first + _AT_ONCE, until))}
                for one, (begin, until) in wanted.items()
                for first in range(begin, until, _AT_ONCE)
            ]
        for window in windows:
            found = view.records(window, unexpired_since(self.topic.feed))
            if self._is_whole(found, window) or self._view is None:
                yield from self._with_gaps_reported(found, window)
            else:
                # Files that were added meanwhile are not all there is: they were compacted, or records have expired.
                yield from self._with_gaps_reported(
                    self.topic.view().records(window, unexpired_since(self.topic.feed)), window
                )

    def _is_whole(self, found: pa.Table, window: dict[int, tuple[int, int]]) -> bool:
        rows: int = found.num_rows
        return rows == sum(until - max(first, self._next[one]) for one, (first, until) in window.items())

    def _with_gaps_reported(self, found: pa.Table, window: dict[int, tuple[int, int]]) -> Iterator[pa.Table]:
        """The records; gaps before them are reported first, gaps after them at the end."""
        expected = {one: self._next[one] for one in window}
        if not self._is_whole(found, window):
            for partition, offset in zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True):
                if offset > expected[partition]:
                    self.on_gap(Gap(partition, expected[partition], offset))
                expected[partition] = offset + 1
            for partition, (_, until) in window.items():
                if expected[partition] < until:
                    self.on_gap(Gap(partition, expected[partition], until))
        if found.num_rows:
            yield found
        for partition, (_, until) in window.items():
            self._next[partition] = until

    def _advance(self, part: pa.Table) -> None:
        ends = part.group_by("partition").aggregate([("offset", "max")])
        for partition, offset in zip(ends["partition"].to_pylist(), ends["offset_max"].to_pylist(), strict=True):
            self._next[partition] = offset + 1
        self._store(at_least=_STORE_SECONDS)

    def _store(self, at_least: float = 0.0) -> None:
        """Stores where the consumer is, unless it did not move or was stored less than `at_least` seconds ago."""
        moved = {one: offset for one, offset in enumerate(self._next) if offset != self._stored[one]}
        if self.consumers is None or self.consumer is None or not moved:
            return
        if time.monotonic() - self._stored_at >= at_least:
            self.consumers.move(self.consumer, self.topic.feed.id, moved)
            self._stored, self._stored_at = list(self._next), time.monotonic()


def records_of(part: pa.Table) -> Iterator[FeedRecord]:
    """The records of a part."""
    plain = (part[name].to_pylist() for name in ("partition", "offset", "key", "value"))
    rows = zip(*plain, _headers(part["headers"]), _moments(part["published_at"]), strict=True)
    return map(FeedRecord._make, rows)


def _moments(column: pa.ChunkedArray) -> Iterable[datetime]:
    """The times of a column; all records of one commit have the same."""
    encoded = column.combine_chunks().dictionary_encode()
    known = encoded.dictionary.to_pylist()
    return map(known.__getitem__, encoded.indices.to_pylist())


def _headers(column: pa.ChunkedArray) -> Iterable[tuple[tuple[str, bytes | None], ...]]:
    if not len(pc.list_flatten(column)):
        return repeat((), len(column))
    return [tuple((pair["name"], pair["value"]) for pair in pairs or ()) for pairs in column.to_pylist()]


def parse_start(text: str) -> Start:
    """`earliest`, an offset, or a time with an offset from UTC; raises `UsageError` for anything else."""
    if text == "earliest":
        return None
    if text.isascii() and text.isdigit() and len(text) <= _OFFSET_DIGITS:
        return int(text)
    try:
        nanos, has_offset = times.parse(text)
    except Rejected:
        raise UsageError(
            f"--from {text}: write an offset such as 42, a time such as 2026-01-31T12:00:00Z, or earliest"
        ) from None
    if not has_offset:
        raise UsageError(
            f"--from {text}: write the offset from UTC as well, as in {text if 'T' in text else text + 'T00:00:00'}Z"
        )
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=nanos // 1000)


def json_line(feed: Feed, record: FeedRecord) -> bytes:
    """A record as one line of JSON; key and value are embedded with every digit where they are JSON, else they are texts.

    `headers` is a list of `[name, value]`, since names may repeat: a value that is not text is `{"base64": …}`.
    """
    is_csv = feed.format == "arcion-csv" or feed.options.get("layout") == "csv"
    embed = _text if is_csv else _embedded
    headers = json_text.join_array(json_text.join_array([quote(name), _text(value)]) for name, value in record.headers)
    return json_text.join(
        [
            ("feed", quote(feed.name)),
            ("partition", b"%d" % record.partition),
            ("offset", b"%d" % record.offset),
            ("key", embed(record.key)),
            ("value", embed(record.value)),
            ("headers", headers),
            ("timestamp", quote(moment_text(record.published_at))),
        ]
    )


@functools.lru_cache(maxsize=1024)
def moment_text(moment: datetime) -> str:
    """RFC 3339 in UTC, with the fewest fraction digits that are exact."""
    return times.to_text((moment - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) * 1000)


def _embedded(value: bytes | None) -> bytes:
    if value is None:
        return b"null"
    try:
        value.decode()
        return json_text.compact(value)
    except (ValueError, RecursionError):
        return _text(value)


def _text(value: bytes | None) -> bytes:
    """A JSON string; bytes that are no text become an object with their Base64."""
    if value is None:
        return b"null"
    try:
        return quote(value.decode())
    except UnicodeDecodeError:
        return json_text.join([("base64", quote(base64.b64encode(value).decode()))])
