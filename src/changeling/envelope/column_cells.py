"""The cells of a group of records or changes: tests of columns, and what is built from them."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import is_not

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope import keys
from changeling.envelope.cells import Cell, Cells, Condition, Members, as_bytes, template
from changeling.envelope.columns import Distinct
from changeling.envelope.json_columns import JsonColumns
from changeling.envelope.objects import are_objects, are_shallow
from changeling.envelope.positions import are_positions, positions
from changeling.envelope.text_columns import as_mask, byte_lengths, contained, cut, every, first_bytes, quoted
from changeling.model import arrow_layouts, json_text

_SIMILAR = 8
"""How many records of a group have the same template, on average, where templates are worth it."""


class ColumnCells(JsonColumns):
    """The cells of a group, some of whose records may have to leave it."""

    def __init__(self, count: int, templates: bool = False) -> None:
        super().__init__(count)
        self._templates = templates

    def part(self, count: int) -> "ColumnCells":
        return ColumnCells(count, self._templates)

    def starts(self, cell: Cell, head: bytes) -> Condition:
        if cell is None:
            return np.zeros(self.count, np.bool_)
        given = self.array(cell, pa.binary())
        first = first_bytes(given)
        if ((first > 0) & (first <= ord(" "))).any():
            return as_mask(pc.match_substring_regex(given, rf"^[ \t\r\n]*{re.escape(head.decode())}"))
        return first == ord(head) if len(head) == 1 else as_mask(pc.starts_with(given, head))

    def matches(self, cell: Cell, pattern: str) -> Condition:
        if cell is None:
            return np.zeros(self.count, np.bool_)
        return as_mask(pc.match_substring_regex(self.array(cell), f"^(?:{pattern})$"))

    def contains(self, cell: Cell, parts: Sequence[bytes]) -> Condition:
        found = np.zeros(self.count, np.bool_)
        if cell is not None:
            given = self.array(cell)
            for part in contained(given, parts):
                found |= as_mask(pc.match_substring(given, part))
        return found

    def is_set(self, cell: Cell) -> Condition:
        if cell is None:
            return np.zeros(self.count, np.bool_)
        there = [np.fromiter(map(is_not, cell, repeat(none)), np.bool_, self.count) for none in (None, msgspec.UNSET)]
        found: Condition = there[0] & there[1]
        return found

    def is_position(self, text: Cell) -> Condition:
        return np.zeros(self.count, np.bool_) if text is None else are_positions(self.array(text, pa.string()))

    def canonical(self, value: Cell) -> Condition:
        # The pattern recognises only some of the canonical values.
        self.usually(found := keys.are_canonical(value))
        return found

    def same(self, value: Cell, canonical: Cell) -> Condition:
        return self.equal(value, canonical)

    def check_position(self, text: Cell) -> None:
        self.usually(are_positions(self.array(text, pa.string())))

    def check_object(self, text: Cell) -> None:
        if text is not None:
            self.usually(are_objects(text))

    def check_depth(self, text: Cell) -> None:
        if text is not None:
            self.usually(are_shallow(text))

    def doubled(self, text: Cell, letter: str) -> Cell:
        return None if text is None else pc.replace_substring(self.array(text, pa.string()), letter, letter * 2)

    def json_object(self, members: Mapping[str, Cell], nulled: Sequence[str] = ()) -> Cell:
        parts: list[Cell] = []
        for name, cell in members.items():
            text = self._operand(cell)
            if text is None or (isinstance(text, pa.Array) and text.null_count == len(text)):
                continue
            head = (b"," if parts else b"{") + json_text.head(name)
            if not isinstance(text, pa.Array) or not text.null_count:
                parts += [head, b"null" if name in nulled else text]
            else:
                # Objects lack the member where it is null, which is not the JSON value of that name.
                own = head + b"null" if name in nulled else self.joined(head, pc.fill_null(text, b""))
                parts.append(pc.if_else(pc.is_valid(text), own, b""))
        return self.joined(*parts, b"}") if parts else b"{}"

    def sparse(self, members: Mapping[str, Cell]) -> Cell:
        found = {name: text for name, text in members.items() if self.any(self.present(text))}
        if not found or self.all(self.present(next(iter(found.values())))):
            return self.json_object(found) if found else None
        parts = [self.first(self.joined(b"," + json_text.head(name), text), b"") for name, text in found.items()]
        whole = self.array(self.joined(*parts), pa.binary())
        lengths = byte_lengths(whole)
        there = lengths > 0
        rest = every(cut(whole, np.column_stack((there, lengths - there))), 1, 2)
        return self.where(there, self.joined(b"{", rest, b"}"), None)

    def object_meta(self, name: str, text: Cell, known: Mapping[str, tuple[str, Cell]]) -> Cell:
        if self._templates:
            members = self.members(text)
            left_out = {
                member: origin
                for member, (origin, value) in known.items()
                if member in members and self.equal(members[member], value).all()
            }
            rest = {member: value for member, value in members.items() if member not in left_out}
            values, places = self._distinct(list(rest.values()) or [b""])
            first = {member: as_bytes(self.array(value)[0].as_py()) for member, value in members.items()}
            is_compact = json_text.join(first.items()) == self.array(text)[0].as_py()
            if left_out and is_compact and _SIMILAR * len(values) <= self.count:
                texts = [template(name, members, dict(zip(rest, row, strict=False)), left_out) for row in values]
                return Distinct(texts, places)
        return self.joined(b"{" + json_text.head(name), text, b"}")

    def quoted(self, text: Cell) -> Cell:
        return b"null" if text is None else quoted(self.array(text, pa.string()))

    def int_json(self, number: Cell) -> Cell:
        return b"null" if number is None else pc.fill_null(self.array(number, pa.int64()).cast(pa.string()), "null")

    def padded(self, number: Cell, width: int) -> Cell:
        return None if number is None else pc.utf8_lpad(self.int_text(number), width, "0")

    def size(self, text: Cell) -> Cell:
        return None if text is None else pc.binary_length(self.array(text, pa.binary())).cast(pa.int64())

    def changed(self, text: Cell, mark: bytes, function: Callable[[str], str]) -> Cell:
        if text is None:
            return None
        given = self.array(text, pa.string())
        if not contained(given, [mark]):
            return given
        return self.array(self.each(lambda one: None if one is None else function(one), given), pa.string())

    def int_text(self, number: Cell) -> Cell:
        return None if number is None else self.array(number, pa.int64()).cast(pa.string())

    def position(self, *numbers: Cell) -> Cell:
        found = positions(*(self.array(number, pa.int64()) for number in numbers))
        self.usually(pc.is_valid(found))
        return found

    def time(self, number: Cell, unit: int) -> Cell:
        return None if number is None else pc.multiply_checked(self.array(number, pa.int64()), unit)

    def transaction(self, name: Cell, order: Cell = None, total: Cell = None, complete: Cell = None) -> Cell:
        return _transactions(
            self.array(name, pa.string()),
            self.array(order, pa.int64()),
            self.array(total, pa.int64()),
            self.array(complete, pa.bool_()),
        )

    def key(self, columns: Mapping[str, Cell]) -> Cell:
        for column in columns.values():
            self.expect(keys.are_canonical(column))
        self.check()
        return keys.keys_of(list(columns.items())).cast(pa.string())

    def units(self, nanos: Cell, unit: int) -> Cell:
        # Arrow divides towards zero, and times before 1970 are negative.
        quotient = pc.divide(self.array(nanos, pa.int64()), unit)
        return pc.subtract(quotient, pc.greater(pc.multiply(quotient, unit), nanos).cast(pa.int64()))

    def without_key(self, image: Cell, key: Cell) -> Cell:
        there = self.present(image)
        if not there.any():
            return None
        begins, rest = keys.behind_key(self.array(self.first(image, key), pa.binary()), self.array(key, pa.binary()))
        if (begins | ~there).all():
            return self.where(there, self.joined(b"{", pc.replace_substring_regex(rest, "^,", "")), None)
        names = self.members(key)

        def made(part: Cells, columns: Members | None) -> Sequence[Cell]:
            others = {name: value for name, value in (columns or {}).items() if name not in names}
            return [None if columns is None else part.json_object(others)]

        return self.by_shape(made, (image,))[0]

    def without_end(self, text: Cell) -> Cell:
        if text is None:
            return None
        whole = pc.fill_null(self.array(text, pa.binary()), b"{}")
        lengths = byte_lengths(whole)
        kept = every(cut(whole, np.column_stack((lengths - 1, np.ones_like(lengths)))), 0, 2)
        return self.where(self.present(text), kept, None)

    def with_front(self, front: Cell, text: Cell) -> Cell:
        if front is None or text is None:
            return None
        given = self.array(text, pa.binary())
        whole = pc.fill_null(given, b"{}") if given.null_count else given
        lengths = byte_lengths(whole)
        rest = every(cut(whole, np.column_stack((np.ones_like(lengths), lengths - 1))), 1, 2)
        comma = b"," if (lengths > 2).all() else pc.if_else(pa.array(lengths > 2), b",", b"")
        return self.where(self.present(given), self.joined(front, comma, rest), None)


def _transactions(ids: pa.Array, *parts: pa.Array) -> pa.Array:
    """Transactions as a column; null where the id is."""
    mask = None if not ids.null_count else pc.is_null(ids)
    if mask is not None:
        # The fields of a null transaction are irrelevant, and would differ from reader to reader if they were kept.
        ids = pc.fill_null(ids, "")
    return pa.StructArray.from_arrays([ids, *parts], fields=list(arrow_layouts.TRANSACTION), mask=mask)
