"""Turns rows of JSON values into typed columns of one replica; values that do not fit are quarantined, never silently NULL."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.model.canonical import reader as canonical_reader
from changeling.replicas.fold import Cell
from changeling.replicas.image_columns import image_columns
from changeling.replicas.keys import Reader, reader_of, same, types_of
from changeling.replicas.shape import Columns, Shape
from changeling.replicas.stored_types import arrow_type
from changeling.replicas.value_kinds import kinds_of_values, undeclared
from changeling.replicas.values import Values, column

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
    _names: dict[tuple[str, int | None], set[str]] = field(default_factory=dict)
    """The names that images may have, as far as they are known."""

    def whole(self, images: pa.StringArray, keys: pa.StringArray, encoding: str, version: int | None) -> list[pa.Array]:
        """Rows with full images, all in one convention and version; images are JSON objects, NULL is one without members."""
        self.quarantined = []
        values = self._taken_apart(pc.fill_null(images, "{}"), encoding, version)
        by_id: dict[str, pa.Array] = {}
        for name, found in values.items():
            reader = self.reader(encoding, version, name)
            if reader is not None:
                by_id[reader.id] = found
            elif self._is_new(version, name):
                self._meet(name, found.to_pylist(), encoding)
        key_arrays = self.keys(keys)
        made = []
        for one in self.shape.columns:
            if one.id in key_arrays:
                made.append(key_arrays[one.id])
            elif one.id not in by_id or by_id[one.id].null_count == len(images):
                made.append(pa.nulls(len(images), arrow_type(one.kind)))
            elif pa.types.is_string(by_id[one.id].type):
                made.append(by_id[one.id])
            else:
                made.append(self._column(by_id[one.id], self._by_id[encoding, version, one.id], encoding))
        return made

    def _taken_apart(self, images: pa.StringArray, encoding: str, version: int | None) -> dict[str, pa.Array]:
        """The values of images by name: JSON, or texts where that is what the column holds."""
        names = self._names.setdefault((encoding, version), self.columns.names(version))
        texts = {name for name in names if _is_text(self.reader(encoding, version, name))}
        found = image_columns(images, names, texts)
        if found is None:
            rows = _ROWS.decode("[" + ",".join(images.to_pylist()) + "]")
            there = {name for row in rows for name in row}
            names |= there
            found = {
                name: pa.array([bytes(row[name]) if name in row else None for row in rows], pa.binary())
                for name in there
            }
        return found

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

    def keys(self, keys: Sequence[str] | pa.StringArray) -> dict[str, pa.Array]:
        """The columns of the key, by id, from normalised keys."""
        made = {}
        for one, values in zip(self.shape.key_columns, _key_values(keys, len(self.shape.key)), strict=True):
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
        return self.columns.target_of(version, name) is None

    def _meet(self, name: str, values: Iterable[bytes], encoding: str) -> None:
        kinds = kinds_of_values(values, types_of(encoding).untyped_read)
        if kinds:
            self.wider[name] |= kinds

    def _column(self, values: Values, reader: Reader, encoding: str, places: Sequence[int] | None = None) -> pa.Array:
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


def _is_text(reader: Reader | None) -> bool:
    """Whether a JSON text is stored as the text that it is."""
    if reader is None or not reader.declared or reader.kind.kind != "string" or reader.kind.item is not None:
        return False
    return reader.read is canonical_reader(reader.kind)


def _key_values(keys: Sequence[str] | pa.StringArray, count: int) -> list[Values]:
    """The values of each of so many columns of normalised keys."""
    if count == 1:
        # Nothing but the value stands between the brackets.
        given = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.string())
        return [pc.binary_slice(given.cast(pa.binary()), 1, -1)]
    rows = _KEYS.decode("[" + ",".join(keys.to_pylist() if isinstance(keys, pa.Array) else keys) + "]") if count else []
    return [[bytes(row[place]) for row in rows] for place in range(count)]
