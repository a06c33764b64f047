"""Samples of tables without a declared schema: the columns that their images show, and the kinds of values in them."""

from collections import defaultdict
from itertools import product, repeat

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.text_columns import as_mask
from changeling.log.table_groups import grouped, table_at
from changeling.log.task_result import TableSample
from changeling.model.json_numbers import needs
from changeling.model.table import TableName

ROWS = 1_000
"""Rows of a table that each task samples. The log keeps values as they were sent, so nothing depends on a sample."""
_KINDS = {bool: "bool", str: "text", dict: "json", list: "json"}


class _Number(str):
    """A number that is not whole, as it is spelled."""


_DECODER = msgspec.json.Decoder(float_hook=_Number)


class Sampling:
    """Looks at the first rows of each table in a task."""

    def __init__(self) -> None:
        self._left: dict[TableName, int] = defaultdict(lambda: ROWS)
        self._columns: dict[TableName, dict[str, set[str]]] = {}
        self._keys: dict[TableName, tuple[str, ...]] = {}
        self._done: set[TableName] = set()

    def __call__(self, changes: pa.RecordBatch) -> None:
        """Samples rows of tables that do not have enough yet."""
        if not changes.column("schema").null_count:
            return
        parts = changes.column("table").flatten()
        if self._are_sampled(parts):
            return
        codes, first_rows = grouped(parts)
        undeclared = as_mask(changes.column("schema").is_null())
        for first in sorted(map(int, first_rows)):
            table = table_at(changes, first)
            if parts[-1][first].is_valid and (left := self._left[table]) > 0:
                rows = np.flatnonzero(undeclared & (codes == codes[first]))[:left]
                if len(rows):
                    self._look(table, changes.take(pa.array(rows)))

    def _are_sampled(self, parts: list[pa.Array]) -> bool:
        """Whether every table has enough rows that these parts of names, in whatever combination, may name: that is quick."""
        tables = (TableName(*found) for found in product(*(pc.unique(part).to_pylist() for part in parts)))
        return all(self._left.get(table, ROWS) <= 0 for table in tables if table.name is not None)

    def _look(self, table: TableName, changes: pa.RecordBatch) -> None:
        self._left[table] -= changes.num_rows
        images = pc.coalesce(changes.column("after"), changes.column("before")).drop_null().to_pylist()
        columns = self._columns.setdefault(table, {})
        for name, kinds in kinds_of(images).items():
            columns.setdefault(name, set()).update(kinds)
        key = next((text for text in changes.column("key").to_pylist() if text is not None), None)
        if key is not None and table not in self._keys:
            self._keys[table] = tuple(msgspec.json.decode(key))

    def found(self) -> list[TableSample]:
        """The samples."""
        return [
            TableSample(table, {name: sorted(kinds) for name, kinds in columns.items()}, self._keys.get(table, ()))
            for table, columns in self._columns.items()
            if columns
        ]


def kinds_of(images: list[str]) -> dict[str, set[str]]:
    """The kinds of values in each column, in the order of their first appearance; NULL has none."""
    try:
        rows = _DECODER.decode("[" + ",".join(images) + "]")
    except msgspec.DecodeError:
        rows = [row for image in images for row in _readable(image)]
    found: dict[str, set[str]] = {}
    for name in {name: None for row in rows for name in row}:
        values = list(map(dict.get, rows, repeat(name)))
        found[name] = {_KINDS[kind] for kind in set(map(type, values)) if kind in _KINDS}
        for number in {str(value) for value in values if type(value) in (int, _Number)}:
            found[name] |= needs(number)
    return found


def _readable(image: str) -> list[dict[str, object]]:
    """The image, unless it holds a number that is out of Python's range."""
    try:
        return [_DECODER.decode(image)]
    except msgspec.DecodeError:
        return []
