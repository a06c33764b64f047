"""The rows of a replica at one snapshot, by key: what a feed whose point has that snapshot has published, and can continue."""

from collections.abc import Sequence

import pyarrow as pa

from changeling.feeds.feed import Feed
from changeling.feeds.row_values import Row, widened
from changeling.model import canonical, json_text
from changeling.model.errors import ChangelingError
from changeling.replicas.json_output import json_column
from changeling.replicas.keys import Reader, normal, same
from changeling.replicas.replica_reader import Replica, ReplicaState
from changeling.replicas.row_replacement import all_rows, rows_with_keys
from changeling.replicas.shape import Columns, Shape
from changeling.replicas.stored_rows import StoredRows
from changeling.replicas.stored_types import is_promotion
from changeling.replicas.tables import ReplicaTables
from changeling.replicas.typed_rows import TypedRows


def check_key(feed: Feed, before: Shape, now: Shape) -> None:
    """Raises `ChangelingError` where the key is another one: readers could not find the rows again that were published."""
    if before.key != now.key:
        was, became = (", ".join(column.source_name for column in shape.key_columns) for shape in (before, now))
        raise ChangelingError(
            f"feed {feed.name!r}: the key of {feed.table} was ({was}) and is ({became}) now, and the records of a feed "
            "have one key: drop it and create it again"
        )


def is_rebuilt(columns: Columns, published: ReplicaState, now: ReplicaState, published_to: str) -> bool:
    """Whether rows may differ that no change touches: a schema that came late shows that a column is another one.

    `published_to` is the position up to which changes are published.
    """
    return not columns.fits(published.shape, published.version, now.shape, published_to)


class PublishedRows:
    """Rows of one snapshot, in the columns of a shape."""

    def __init__(self, tables: ReplicaTables, replica: Replica, snapshot: int, shape: Shape) -> None:
        kinds = {column.id: column for column in tables.state_at(replica, snapshot).shape.columns}
        stored = [kinds.get(column.id, column) for column in shape.columns]
        self._widened = {
            now.id: (was, now)
            for was, now in zip(stored, shape.columns, strict=True)
            if not is_promotion(was.kind, now.kind)
        }
        columns = [was if was.id in self._widened else now for was, now in zip(stored, shape.columns, strict=True)]
        self._shape, self._read_shape = shape, Shape(tuple(columns), shape.key)
        rows = StoredRows(tables).at(replica, snapshot, self._read_shape)
        assert rows is not None, "every column has a type that the stored one is promoted to"
        self._stored = rows

    def of(self, keys: Sequence[str]) -> dict[str, Row]:
        """The rows with these normalised keys."""
        if not keys:
            return {}
        if not self._widened.keys().isdisjoint(self._shape.key):
            wanted = set(keys)
            return {key: row for key, row in self.all().items() if key in wanted}
        typed = TypedRows(Columns(), self._shape).keys(keys)
        columns = [typed[column.id] for column in self._shape.key_columns]
        return self._rows(rows_with_keys(self._stored, pa.table(columns, schema=self._stored.key_columns)))

    def all(self) -> dict[str, Row]:
        """All rows."""
        return self._rows(all_rows(self._stored))

    def _rows(self, found: pa.Table) -> dict[str, Row]:
        if not found.num_rows:
            return {}
        texts = {
            column.id: json_column(found.column(place).combine_chunks(), column.kind)
            for place, column in enumerate(self._read_shape.columns)
        }
        for number, (was, now) in self._widened.items():
            texts[number] = widened(texts[number], was, now)
        readers = [
            Reader(
                column.id,
                same if column.id.startswith("+") else canonical.reader(column.kind),
                column.kind,
                not column.id.startswith("+"),
            )
            for column in self._shape.key_columns
        ]
        rows: dict[str, Row] = {}
        for place in range(found.num_rows):
            row = {number: values[place] for number, values in texts.items() if values[place] != b"null"}
            key = json_text.join_array(
                normal(row[reader.id], reader) if reader.id in row else b"null" for reader in readers
            )
            rows[key.decode()] = row
        return rows
