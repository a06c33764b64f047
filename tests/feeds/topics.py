"""Topics and replicas that a test writes itself, without Spark."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from changeling.feeds.feed import Feed
from changeling.feeds.topic import COLUMNS, STATE, FeedState, ScanState, Topic, namespace_of
from changeling.iceberg.catalog import catalog
from changeling.iceberg.reader import Tables
from changeling.log.log_tables import POINTS
from changeling.model.table import TableName
from changeling.replicas.points import Point
from changeling.replicas.replica_reader import IDENTITY, SHAPE, Identity, ReplicaState
from changeling.replicas.replica_reader import STATE as REPLICA
from changeling.replicas.shape import Shape
from changeling.replicas.stored_types import arrow_type

PIPELINE = "shop"
USERS = TableName(None, "public", "users")
_VERSION_2 = {"format-version": "2"}


def feed(**given: Any) -> Feed:
    """A feed of the table `users`."""
    known = {"name": "users_feed", "id": "f1", "source": "pg", "table": USERS, "format": "ydb-json", "mode": "UPDATES"}
    return Feed(**{**known, "status": "enabled", "start": 0, **given})


class WrittenLake:
    """The tables of a pipeline, as far as a test writes them."""

    def __init__(self, folder: Path) -> None:
        self.tables = Tables(catalog(str(folder / "lake"), folder, {}), PIPELINE)
        self._catalog = self.tables.catalog()
        self._next: dict[str, list[int]] = {}

    def topic(self, published: Feed) -> Topic:
        return Topic(self.tables, PIPELINE, published)

    def publish(
        self,
        published: Feed,
        records: Sequence[tuple[int, str | None, str | None]],
        *,
        point: int = 1,
        at: datetime | None = None,
        lost: int | None = None,
        headers: Sequence[Sequence[tuple[str, bytes | None]]] | None = None,
        scan: ScanState | None = None,
    ) -> None:
        """Appends records (partition, key, value) in one commit, except the `lost` one."""
        ends = self._next.setdefault(published.id, [0] * published.partitions)
        rows = []
        for place, (partition, key, value) in enumerate(records):
            given = () if headers is None else headers[place]
            rows.append(
                {
                    "partition": partition,
                    "offset": ends[partition],
                    "key": None if key is None else key.encode(),
                    "value": None if value is None else value.encode(),
                    "headers": [{"name": name, "value": content} for name, content in given],
                    "published_at": at or datetime.now(UTC),
                    "point": point,
                }
            )
            ends[partition] += 1
        if lost is not None:
            del rows[lost]
        state = FeedState(id=published.id, point=point, offsets=list(ends), changes=sum(ends), scan=scan)
        self._append(
            namespace_of(PIPELINE),
            published.name,
            pa.Table.from_pylist(rows, COLUMNS),
            {STATE: msgspec.json.encode(state).decode()},
        )

    def replicate(
        self, shape: Shape, states: Mapping[int, Sequence[Mapping[str, Any]]], name: str = "public__users"
    ) -> None:
        """The replica with the rows of each point, and the points."""
        columns = pa.schema([(column.name, arrow_type(column.kind)) for column in shape.columns])
        points = []
        for number, rows in states.items():
            state = ReplicaState(point=number, shape=shape)
            self._drop_rows(f"{PIPELINE}_replica", name)
            said = {REPLICA: msgspec.json.encode(state).decode()}
            properties = {
                IDENTITY: msgspec.json.encode(Identity("pg", USERS)).decode(),
                SHAPE: msgspec.json.encode(shape).decode(),
            }
            snapshot = self._append(
                f"{PIPELINE}_replica", name, pa.Table.from_pylist(list(rows), columns), said, properties
            )
            points.append(Point(number, datetime.now(UTC), tables={name: snapshot}).to_row())
        self._append(PIPELINE, POINTS.name, pa.Table.from_pylist(points, POINTS.columns), {})

    def write(self, name: str, rows: pa.Table) -> None:
        """A table of the pipeline."""
        self._append(PIPELINE, name, rows, {})

    def _drop_rows(self, namespace: str, name: str) -> None:
        if self._catalog.table_exists((namespace, name)):
            table = self._catalog.load_table((namespace, name))
            if table.scan(limit=1).to_arrow().num_rows:
                table.delete()

    def _append(
        self,
        namespace: str,
        name: str,
        rows: pa.Table,
        said: dict[str, str],
        properties: Mapping[str, str] | None = None,
    ) -> int:
        self._catalog.create_namespace_if_not_exists(namespace)
        table = self._catalog.create_table_if_not_exists(
            (namespace, name), rows.schema, properties={**_VERSION_2, **(properties or {})}
        )
        table.append(rows, snapshot_properties=said)
        current = table.current_snapshot()
        assert current is not None
        return current.snapshot_id
