"""A table topic that tests fill by themselves: no Spark, and no feed that encodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog

from changeling.feeds.feed import Feed
from changeling.feeds.topic import COLUMNS, STATE, FeedState, Topic, namespace_of
from changeling.iceberg.catalog import NAME, catalog, prepare
from changeling.iceberg.reader import Tables
from changeling.model.table import TableName

PIPELINE = "shop"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Headers = Mapping[str, bytes]


@dataclass(frozen=True)
class Sent:
    """A record as the first step of a feed would append it."""

    value: bytes | None
    headers: Headers = field(default_factory=dict)
    partition: int = 0


class FilledTopic:
    """The topic of one feed in a lake of its own."""

    def __init__(self, folder: Path, partitions: int = 1, **feed: object) -> None:
        self.feed = Feed(
            **{  # type: ignore[arg-type]
                "name": "orders",
                "id": "first",
                "table": TableName(None, None, "orders"),
                "format": "debezium-json",
                "mode": "NEW_IMAGE",
                "retention": None,
                **feed,
            },
            partitions=partitions,
        )
        self._settings = catalog(str(folder / "lake"), folder, {})
        assert self._settings.database is not None
        prepare(self._settings.database)
        self._catalog: Catalog = load_catalog(NAME, **self._settings.pyiceberg)
        self._catalog.create_namespace_if_not_exists(namespace_of(PIPELINE))
        self._name = (namespace_of(PIPELINE), self.feed.name)
        self._next = [0] * partitions

    def topic(self) -> Topic:
        """The topic as readers have it."""
        return Topic(Tables(self._settings, PIPELINE), PIPELINE, self.feed)

    def append(self, records: Sequence[Sent | bytes | None], at: datetime = NOON) -> None:
        """One commit with these records."""
        sent = [record if isinstance(record, Sent) else Sent(record) for record in records]
        rows = []
        for record in sent:
            headers = [{"name": name, "value": value} for name, value in record.headers.items()]
            rows.append(
                {
                    "partition": record.partition,
                    "offset": self._next[record.partition],
                    "value": record.value,
                    "headers": headers or None,
                    "published_at": at,
                    "point": 1,
                }
            )
            self._next[record.partition] += 1
        table = self._catalog.create_table_if_not_exists(self._name, COLUMNS)
        state = FeedState(id=self.feed.id, point=1, offsets=self._next)
        # Stored in an order that is not that of the offsets.
        table.append(
            pa.Table.from_pylist(rows[::-1], COLUMNS), snapshot_properties={STATE: msgspec.json.encode(state).decode()}
        )

    def forget(self, below: int) -> None:
        """Deletes records as retention does."""
        state = FeedState(id=self.feed.id, point=1, offsets=self._next)
        self._catalog.load_table(self._name).delete(
            f"offset < {below}", snapshot_properties={STATE: msgspec.json.encode(state).decode()}
        )
