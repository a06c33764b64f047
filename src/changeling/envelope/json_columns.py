"""The cells of a group: JSON and other texts taken apart, by columns."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope import keys
from changeling.envelope.cells import Absent, Cell, Condition, Members, MemberStruct
from changeling.envelope.columns import Structs
from changeling.envelope.csv_columns import fields_of
from changeling.envelope.csv_rows import CsvRow, RowStyle
from changeling.envelope.flat_objects import FlatObjects, Path, flat_objects
from changeling.envelope.objects import in_order
from changeling.envelope.parts import Parts
from changeling.envelope.positions import are_positions
from changeling.envelope.shapes import Names, Shape, decoded, decoded_texts, first_mismatches, items
from changeling.envelope.text_columns import Mask, as_mask, byte_lengths, cut, every, first_bytes

_SOLE = r'^\{"[^"\\]*":(?P<value>"[^"\\]*"|[^",{\[]+)\}$'
_NATURAL = "^(?:0|[1-9][0-9]{0,18})$"


class JsonColumns(Parts):
    """What takes texts apart; a group continues with the records whose JSON is as that of the first one."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._flat: dict[int, tuple[Cell, FlatObjects, Path]] = {}
        """What was cut apart already, by the identity of its column, which is kept."""

    def envelope(self, text: Cell) -> Members:
        found = flat_objects(self._objects(text))
        return self.members(text) if found is None else self._flat_members(found, ())

    def _flat_members(self, flat: FlatObjects, path: Path) -> Members:
        found = flat.members(path)
        self._flat |= {id(cell): (cell, flat, (*path, name)) for name, cell in found.items()}
        return found

    def members(self, text: Cell, name: str = "", optional: Names = (), usual: Names = ()) -> Members:
        if id(text) in self._flat and not optional:
            _, flat, path = self._flat[id(text)]
            if flat.is_object(path):
                return self._flat_members(flat, path)
        given = self._objects(text)
        shape = self._shape(given)
        return dict((shape.with_optional(optional, usual) if optional else shape).members(given))

    def names(self, text: Cell) -> tuple[str, ...]:
        return self._shape(self._objects(text)).names

    def _objects(self, text: Cell) -> pa.Array:
        self.usually(self.present(text))
        return self.array(text, pa.binary())

    def _shape(self, texts: pa.Array) -> Shape:
        found = Shape.of(texts[0].as_py())
        if found is None:
            raise first_mismatches(self.count)
        return found

    def items(self, text: Cell, count: int, wrong: Callable[[int], str]) -> list[Cell]:
        self.check()
        return list(items(self.array(text, pa.binary()), count))

    def struct(self, kind: MemberStruct, text: Cell) -> Any:
        if text is None:
            return Absent()
        self.check()
        if id(text) in self._flat:
            _, flat, path = self._flat[id(text)]
            if (known := flat.struct(kind, path)) is not None:
                return known
        text = self.array(text, pa.binary())
        if not text.null_count and not kind.nullable:
            return Structs(kind.fields, decoded(text, kind.decoder))
        found = decoded(pc.fill_null(text, b"null"), kind.decoder_or_none)
        if not kind.nullable and found.count(None) > text.null_count:
            self._check_nulls(text, np.fromiter((one is not None for one in found), np.bool_, len(found)))
        return Structs(kind.fields, found)

    def _check_nulls(self, texts: pa.Array, there: Mask) -> None:
        """A text that was there must give a value: records whose JSON is `null` leave."""
        self.usually(there | as_mask(pc.is_null(texts)))

    def text(self, raw: Cell) -> Cell:
        if raw is None:
            return None
        self.check()
        found = decoded_texts(raw)
        if found.null_count > raw.null_count:
            self._check_nulls(raw, as_mask(pc.is_valid(found)))
        return found

    def document(self, members: Mapping[str, Cell], side: str) -> Cell:
        given = members.get(side)
        if given is None:
            return None
        if id(given) in self._flat:
            _, flat, path = self._flat[id(given)]
            if (text := flat.text(path)) is not None:
                self.usually(~self.present(text) | self.starts(text, b"{"))
                return text
        raw = self.array(given, pa.binary())
        missing = self.equal(raw, b"null") | ~self.present(raw)
        if missing.all():
            return None
        head = first_bytes(raw)[~missing][0]
        self.usually(missing | (first_bytes(raw) == head))
        if head == ord('"'):
            found = decoded_texts(raw)
            self.usually(~self.present(found) | self.starts(found, b"{"))
            return found
        self.usually(missing | (first_bytes(raw) == ord("{")))
        return self.where(missing, None, raw)

    def ordered(self, text: Cell, names: tuple[str, ...]) -> Condition:
        if text is None:
            return np.zeros(self.count, np.bool_)
        if id(text) in self._flat:
            _, flat, path = self._flat[id(text)]
            return np.full(self.count, flat.is_object(path) and flat.has_only(path, names))
        return as_mask(pc.match_substring_regex(self.array(text, pa.binary()), in_order(names)))

    def columns(self, row: Cell, names: tuple[str, ...]) -> Members:
        self.check()
        return dict(zip(names, keys.values_in(pc.fill_null(row, "{}"), names), strict=True))

    def key_in_row(self, columns: Cell, row: Cell) -> Cell:
        key, names = keys.canonical_objects(columns)
        self.usually(pc.is_valid(key))
        if row is not None:
            given = self.array(row, pa.binary())
            fits = keys.fit_rows(columns, key, names, pc.fill_null(given, b"{}"))
            self.usually(fits | as_mask(pc.is_null(given)))
        return key

    def sole_value(self, key: Cell) -> Cell:
        return pc.struct_field(pc.extract_regex(self.array(key, pa.string()), _SOLE), "value")

    def content(self, raw: Cell) -> Cell:
        given = self.array(raw, pa.binary())
        quoted = pc.starts_with(given, b'"')
        found = pc.if_else(quoted, pc.binary_slice(given, 1, -1), given).cast(pa.string())
        escaped = pc.and_(quoted, pc.match_substring(given, "\\"))
        if not pc.any(escaped).as_py():
            return found
        return pc.replace_with_mask(found, pc.fill_null(escaped, False), decoded_texts(given.filter(escaped)))

    def parse_natural_json(self, raw: Cell) -> Cell:
        fits = pc.match_substring_regex(raw, _NATURAL)
        return pc.if_else(fits, raw, None).cast(pa.string()).cast(pa.int64())

    def parse_int(self, text: Cell) -> Cell:
        if text is None:
            return None
        given = self.array(text, pa.string())
        self.usually(pc.fill_null(pc.match_substring_regex(given, "^-?[0-9]{1,18}$"), True))
        return given.cast(pa.int64())

    def captured(self, text: Cell, pattern: str) -> tuple[Cell, ...]:
        if text is None:
            return (None,) * re.compile(pattern).groups
        found = pc.extract_regex(self.array(text, pa.string()), f"^(?:{pattern})$")
        return tuple(part.cast(pa.int64()) for part in found.flatten())

    def behind(self, text: Cell, pattern: str) -> tuple[Cell, ...]:
        found = pc.extract_regex(self.array(text, pa.string()), f"^(?P<front>{pattern})")
        self.usually(as_mask(pc.is_valid(found)) & as_mask(pc.ends_with(text, b"}")))
        front, *groups = found.flatten()
        lengths = byte_lengths(front)
        pieces = cut(text, np.column_stack((lengths, byte_lengths(text) - lengths)))
        return *groups, every(pieces, 1, 2)

    def components(self, position: Cell, count: int) -> tuple[Cell, ...]:
        if position is None:
            return (None,) * count
        self.usually(are_positions(position) | ~self.present(position))
        pattern = r"\.".join(f"[0-9]{{2}}(?P<n{place}>[0-9]{{1,18}})" for place in range(count))
        found = pc.extract_regex(position, f"^{pattern}$")
        if found.null_count:
            # Larger numbers have no place in a column.
            as_many = as_mask(pc.equal(pc.count_substring(position, "."), count - 1))
            self.usually(~as_many | as_mask(pc.is_valid(found)))
        return tuple(part.cast(pa.int64()) for part in found.flatten())

    def csv_row(self, text: Cell, style: RowStyle) -> CsvRow:
        self.usually(self.present(text))
        return CsvRow(fields_of(self.array(text, pa.binary()), style), usual=True)
