"""Maps the schemas that changes carry to their numbers in the registry, in the tasks."""

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.log.task_result import SeenSchema
from changeling.model.table import TableName

Known: TypeAlias = dict[tuple[TableName, str], "int | str"]
"""The number of each schema text of each table, or the reason why its records are rejected."""
_NOWHERE = TableName(None, None, "")


class SchemaIds:
    """Looks up the schemas of batch after batch, and records their ranges of positions."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._seen: dict[tuple[TableName, str], SeenSchema] = {}
        self.unknown = False
        """A schema has no number yet."""

    def __call__(self, changes: pa.RecordBatch) -> tuple[pa.Array, dict[int, str]]:
        """The number of each change's schema, and the rows to quarantine with the reason for each."""
        schemas = changes.column("schema")
        if schemas.null_count == len(schemas):
            return pa.nulls(len(schemas), pa.int64()), {}
        codes, distinct = grouped([schemas, *changes.column("table").flatten()])
        numbers = np.zeros(len(distinct), np.int64)
        known = np.zeros(len(distinct), bool)
        reasons: dict[int, str] = {}
        for group, row in enumerate(distinct):
            text = schemas[int(row)].as_py()
            if text is None:
                continue
            table = table_at(changes, int(row))
            self._note(table, text, changes, codes == group)
            found = self._known.get((table, text))
            if isinstance(found, int):
                numbers[group], known[group] = found, True
            elif found is None:
                self.unknown = True
            else:
                reasons[group] = found
        ids = pa.array(numbers[codes], pa.int64(), mask=~known[codes])
        incompatible = {int(row): reasons[int(codes[row])] for row in np.flatnonzero(np.isin(codes, list(reasons)))}
        return ids, incompatible

    def seen(self) -> list[SeenSchema]:
        """Each schema of each table."""
        return list(self._seen.values())

    def _note(self, table: TableName, text: str, changes: pa.RecordBatch, rows: np.ndarray) -> None:
        positions = changes.column("position")
        bounds = pc.min_max(positions if rows.all() else positions.filter(pa.array(rows)))
        first, last = bounds["min"].as_py(), bounds["max"].as_py()
        before = self._seen.get((table, text))
        if before is not None:
            first, last = min(first, before.first), max(last, before.last)
        arrived = bool(changes.column("arrived")[int(np.argmax(rows))].as_py())
        self._seen[table, text] = SeenSchema(table, text, first, last, arrived)


def grouped(columns: Iterable[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """A group number for each row (rows of the same values), and the first row of each group."""
    codes: np.ndarray | int = 0
    for column in columns:
        encoded = column.dictionary_encode()
        codes = codes * (len(encoded.dictionary) + 1) + _indices(encoded)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return inverse, first


def _indices(encoded: pa.DictionaryArray) -> np.ndarray:
    return np.asarray(pc.add(pc.fill_null(encoded.indices, -1), 1), np.int64)


def table_at(changes: pa.RecordBatch, row: int) -> TableName:
    """The table of one change."""
    found = changes.column("table")[row].as_py()
    return _NOWHERE if found is None else TableName(found["catalog"], found["schema"], found["name"])
