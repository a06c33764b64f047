"""Rows of JSON values into typed columns of one replica; values that do not fit are quarantined, never silently NULL."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from changeling.model.canonical import reader as canonical_reader
from changeling.replicas.fold import Cell
from changeling.replicas.keys import Reader, reader_of, same, types_of
from changeling.replicas.shape import Columns, Shape
from changeling.replicas.stored_types import arrow_type
from changeling.replicas.value_kinds import kinds_of_values, undeclared
from changeling.replicas.values import column

_ROWS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_KEYS = msgspec.json.Decoder(list[list[msgspec.Raw]])


@dataclass
class QuarantinedValue:
    """A value that does not fit its column."""

    row: int
    column: str
    value: bytes
    encoding: str
    reason: str


@dataclass
class TypedRows:
    """Builds columns. It also collects values to quarantine, and columns that need a wider type or are new."""

    columns: Columns
    shape: Shape
    quarantined: list[QuarantinedValue] = field(default_factory=list)
    """Of the rows that were converted last."""
    wider: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Kinds of values that columns without a schema do not hold yet."""
    _readers: dict[tuple[str, int | None, str], Reader | None] = field(default_factory=dict)
    _by_id: dict[tuple[str, int | None, str], Reader] = field(default_factory=dict)

    def whole(
        self, texts: Sequence[str | None], keys: Sequence[str], encoding: str, version: int | None
    ) -> list[pa.Array]:
        """Rows with full images, all in one convention and version; texts are JSON objects."""
        self.quarantined = []
        rows = _ROWS.decode("[" + ",".join(text or "{}" for text in texts) + "]")
        by_id: dict[str, str] = {}
        for name in {name for row in rows for name in row}:
            reader = self.reader(encoding, version, name)
            if reader is not None:
                by_id[reader.id] = name
            elif self._is_new(version, name):
                self._meet(name, [bytes(row[name]) for row in rows if name in row], encoding)
        key_arrays = self.keys(keys)
        made = []
        for one in self.shape.columns:
            if one.id in key_arrays:
                made.append(key_arrays[one.id])
            elif one.id not in by_id:
                made.append(pa.nulls(len(rows), arrow_type(one.kind)))
            else:
                name = by_id[one.id]
                values = [bytes(row[name]) if name in row else None for row in rows]
                made.append(self._column(values, self._by_id[encoding, version, one.id], encoding))
        return made

    def parts(self, rows: Sequence[dict[str, Cell]], keys: Sequence[str]) -> list[pa.Array]:
        """Rows with partial images, each in a convention and version of its own; by column id."""
        self.quarantined = []
        key_arrays = self.keys(keys)
        made = []
        for one in self.shape.columns:
            if one.id in key_arrays:
                made.append(key_arrays[one.id])
            else:
                made.append(self._mixed(one.id, arrow_type(one.kind), rows))
        return made

    def keys(self, keys: Sequence[str]) -> dict[str, pa.Array]:
        """The columns of the key, by id, from normalised keys."""
        if not self.shape.key:
            return {}
        rows = _KEYS.decode("[" + ",".join(keys) + "]")
        made = {}
        for place, one in enumerate(self.shape.key_columns):
            values = [bytes(row[place]) for row in rows]
            if one.id.startswith("+"):
                made[one.id], kinds = undeclared(values, one.kind, same, doubles=one.id in self.columns.doubles)
                if kinds:
                    self.wider[one.source_name] |= kinds
            else:
                made[one.id], misfits = column(values, one.kind, canonical_reader(one.kind))
                for misfit in misfits:
                    self.quarantined.append(
                        QuarantinedValue(misfit.place, one.name, misfit.value, "canonical", misfit.reason)
                    )
        return made

    def cells(self, text: str | None, encoding: str, version: int | None) -> dict[str, Cell]:
        """The values of an image by column id."""
        found = {}
        for name, raw in _ROWS.decode(f"[{text or '{}'}]")[0].items():
            reader = self.reader(encoding, version, name)
            if reader is not None:
                found[reader.id] = Cell(bytes(raw), encoding, version)
            elif self._is_new(version, name):
                self._meet(name, [bytes(raw)], encoding)
        return found

    def widen(self, number: str, cell: Cell) -> None:
        """Notes the kind of a value that a column without a schema does not hold yet."""
        reader = self._by_id[cell.encoding, cell.schema, number]
        self._column([cell.value], reader, cell.encoding)

    def reader(self, encoding: str, version: int | None, name: str) -> Reader | None:
        """How values of that name are read."""
        place = (encoding, version, name)
        if place not in self._readers:
            found = reader_of(self.columns, self.shape, encoding, version, name)
            self._readers[place] = found
            if found is not None:
                self._by_id[encoding, version, found.id] = found
        return self._readers[place]

    def _is_new(self, version: int | None, name: str) -> bool:
        """Whether a column is in no schema and no earlier value, and is wanted."""
        if version is not None and self.columns.policy == "ignore":
            return False
        return self.columns.place(version, name) is None

    def _meet(self, name: str, values: Iterable[bytes], encoding: str) -> None:
        kinds = kinds_of_values(values, types_of(encoding).untyped_read)
        if kinds:
            self.wider[name] |= kinds

    def _column(
        self, values: list[bytes | None], reader: Reader, encoding: str, places: Sequence[int] | None = None
    ) -> pa.Array:
        one = self.shape.column(reader.id)
        if not reader.declared:
            read = None if reader.read is same else reader.read
            array, kinds = undeclared(values, reader.kind, read, doubles=reader.id in self.columns.doubles)
            if kinds:
                self.wider[one.source_name] |= kinds
            return array
        array, misfits = column(values, reader.kind, reader.read)
        for misfit in misfits:
            row = misfit.place if places is None else places[misfit.place]
            self.quarantined.append(QuarantinedValue(row, one.name, misfit.value, encoding, misfit.reason))
        return array

    def _mixed(self, number: str, kind: pa.DataType, rows: Sequence[dict[str, Cell]]) -> pa.Array:
        """One column whose values may follow several conventions."""
        places: dict[tuple[str, int | None], list[int]] = defaultdict(list)
        for row, cells in enumerate(rows):
            cell = cells.get(number)
            if cell is not None:
                places[cell.encoding, cell.schema].append(row)
        made, order = [pa.nulls(1, kind)], [0] * len(rows)
        for (encoding, version), found in places.items():
            values: list[bytes | None] = [rows[row][number].value for row in found]
            start = sum(len(array) for array in made)
            made.append(self._column(values, self._by_id[encoding, version, number], encoding, found))
            for offset, row in enumerate(found):
                order[row] = start + offset
        return pa.concat_arrays(made).take(pa.array(order, pa.int64()))
