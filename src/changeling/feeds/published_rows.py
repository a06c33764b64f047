"""The rows of a replica at one snapshot, by key: what a feed whose point has that snapshot has published."""

from collections.abc import Sequence

import pyarrow as pa

from changeling.feeds.row_values import Row
from changeling.model import canonical, json_text
from changeling.model.errors import ChangelingError
from changeling.replicas.json_output import json_column
from changeling.replicas.keys import Reader, normal, same
from changeling.replicas.replica_reader import Replica
from changeling.replicas.row_replacement import all_rows, rows_with_keys
from changeling.replicas.shape import Columns, Shape
from changeling.replicas.stored_rows import StoredRows
from changeling.replicas.tables import ReplicaTables
from changeling.replicas.typed_rows import TypedRows


class PublishedRows:
    """Rows of one snapshot, in the columns of a shape."""

    def __init__(self, tables: ReplicaTables, replica: Replica, snapshot: int, shape: Shape) -> None:
        self._shape = shape
        stored = StoredRows(tables).at(replica, snapshot, shape)
        if stored is None:
            raise ChangelingError(
                f"the rows of {replica.identity.table} were stored with other types at the feed's point: drop the feed and create it again"
            )
        self._stored = stored

    def of(self, keys: Sequence[str]) -> dict[str, Row]:
        """The rows with these normalised keys."""
        if not keys:
            return {}
        typed = TypedRows(Columns(), self._shape).keys(keys)
        columns = [typed[column.id] for column in self._shape.key_columns]
        return self._rows(rows_with_keys(self._stored, pa.table(columns, schema=self._stored.key_columns)))

    def all(self) -> dict[str, Row]:
        """All rows."""
        return self._rows(all_rows(self._stored))

    def _rows(self, found: pa.Table) -> dict[str, Row]:
        if not found.num_rows:
            return {}
        columns = self._shape.columns
        texts = {
            column.id: json_column(found.column(place).combine_chunks(), column.kind)
            for place, column in enumerate(columns)
        }
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
