"""Maps the schemas that changes carry to their numbers in the registry, in the tasks."""

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.log.table_groups import grouped, table_at
from changeling.log.task_result import SeenSchema
from changeling.model.table import TableName

Known: TypeAlias = dict[tuple[TableName, str], "int | str"]
"""The number of each schema text of each table, or the reason why its records are rejected."""


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
