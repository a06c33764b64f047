"""The cells of a group of records or changes: JSON and the parts of envelopes, by columns."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import is_not

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope import keys
from changeling.envelope.cells import Cell, Cells, Condition, Members
from changeling.envelope.csv_columns import fields_of
from changeling.envelope.csv_rows import Row, RowStyle
from changeling.envelope.json_columns import JsonColumns
from changeling.envelope.objects import are_objects, are_shallow
from changeling.envelope.positions import are_positions, positions
from changeling.envelope.shapes import decoded
from changeling.envelope.text_columns import as_mask, byte_lengths, contained, cut, every, first_bytes, quoted
from changeling.model import arrow_layouts, json_text

_SOLE = r'^\{"[^"\\]*":(?P<value>"[^"\\]*"|[^",{\[]+)\}$'
_NATURAL = "^(?:0|[1-9][0-9]{0,18})$"
_SIMILAR = 8
"""How many records of a group must have the same text for it to be worth a template."""
_texts = msgspec.json.Decoder(str | None)


class Many(JsonColumns):
    """The cells of a group, some of whose records may have to leave it."""

    def part(self, count: int) -> "Many":
        return Many(count, self._templates)

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

    def csv_row(self, text: Cell, style: RowStyle) -> Row:
        self.only(self.present(text))
        return Row(fields_of(self.array(text, pa.binary()), style), usual=True)

    def doubled(self, text: Cell, letter: str) -> Cell:
        return None if text is None else pc.replace_substring(self.array(text, pa.string()), letter, letter * 2)

    def natural(self, raw: Cell) -> Cell:
        fits = pc.match_substring_regex(raw, _NATURAL)
        return pc.if_else(fits, raw, None).cast(pa.string()).cast(pa.int64())

    def is_set(self, cell: Cell) -> Condition:
        if cell is None:
            return np.zeros(self.count, np.bool_)
        there = [np.fromiter(map(is_not, cell, repeat(none)), np.bool_, self.count) for none in (None, msgspec.UNSET)]
        found: Condition = there[0] & there[1]
        return found

    def shell(self, members: Mapping[str, Cell], taken: Sequence[str] = ()) -> Cell:
        parts: list[Cell] = []
        for name, cell in members.items():
            text = self._operand(cell)
            if text is None or (isinstance(text, pa.Array) and text.null_count == len(text)):
                continue
            head = (b"," if parts else b"{") + json_text.head(name)
            if not isinstance(text, pa.Array) or not text.null_count:
                parts += [head, b"null" if name in taken else text]
            else:
                # Objects lack the member where it is null, which is not the JSON value of that name.
                own = head + b"null" if name in taken else self.joined(head, pc.fill_null(text, b""))
                parts.append(pc.if_else(pc.is_valid(text), own, b""))
        return self.joined(*parts, b"}") if parts else b"{}"

    def sparse(self, members: Mapping[str, Cell]) -> Cell:
        found = {name: text for name, text in members.items() if self.any(self.present(text))}
        if not found or self.all(self.present(next(iter(found.values())))):
            return self.shell(found) if found else None
        parts = [self.first(self.joined(b"," + json_text.head(name), text), b"") for name, text in found.items()]
        whole = self.array(self.joined(*parts), pa.binary())
        lengths = byte_lengths(whole)
        there = lengths > 0
        rest = every(cut(whole, np.column_stack((there, lengths - there))), 1, 2)
        return self.where(there, self.joined(b"{", rest, b"}"), None)

    def quoted(self, text: Cell) -> Cell:
        return b"null" if text is None else quoted(self.array(text, pa.string()))

    def digits(self, number: Cell) -> Cell:
        return b"null" if number is None else pc.fill_null(self.array(number, pa.int64()).cast(pa.string()), "null")

    def padded(self, number: Cell, width: int) -> Cell:
        return None if number is None else pc.utf8_lpad(self.printed(number), width, "0")

    def size(self, text: Cell) -> Cell:
        return None if text is None else pc.binary_length(self.array(text, pa.binary())).cast(pa.int64())

    def captured(self, text: Cell, pattern: str) -> tuple[Cell, ...]:
        if text is None:
            return (None,) * re.compile(pattern).groups
        found = pc.extract_regex(self.array(text, pa.string()), f"^(?:{pattern})$")
        return tuple(part.cast(pa.int64()) for part in found.flatten())

    def behind(self, text: Cell, pattern: str) -> tuple[Cell, ...]:
        found = pc.extract_regex(self.array(text, pa.string()), f"^(?P<front>{pattern})")
        self.only(as_mask(pc.is_valid(found)) & as_mask(pc.ends_with(text, b"}")))
        front, *groups = found.flatten()
        lengths = byte_lengths(front)
        pieces = cut(text, np.column_stack((lengths, byte_lengths(text) - lengths)))
        return *groups, every(pieces, 1, 2)

    def number(self, text: Cell) -> Cell:
        if text is None:
            return None
        given = self.array(text, pa.string())
        self.only(pc.fill_null(pc.match_substring_regex(given, "^-?[0-9]{1,18}$"), True))
        return given.cast(pa.int64())

    def changed(self, text: Cell, mark: bytes, function: Callable[[str], str]) -> Cell:
        if text is None:
            return None
        given = self.array(text, pa.string())
        if not contained(given, [mark]):
            return given
        return self.array(self.each(lambda one: None if one is None else function(one), given), pa.string())

    def check_position(self, text: Cell) -> None:
        self.only(are_positions(self.array(text, pa.string())))

    def is_position(self, text: Cell) -> Condition:
        return np.zeros(self.count, np.bool_) if text is None else are_positions(self.array(text, pa.string()))

    def printed(self, number: Cell) -> Cell:
        return None if number is None else self.array(number, pa.int64()).cast(pa.string())

    def position(self, *numbers: Cell) -> Cell:
        found = positions(*(self.array(number, pa.int64()) for number in numbers))
        self.only(pc.is_valid(found))
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

    def columns(self, row: Cell, names: tuple[str, ...]) -> Members:
        self.check()
        return dict(zip(names, keys.values_in(pc.fill_null(row, "{}"), names), strict=True))

    def key(self, columns: Mapping[str, Cell]) -> Cell:
        for column in columns.values():
            self.expect(keys.are_canonical(column))
        self.check()
        return keys.keys_of(list(columns.items())).cast(pa.string())

    def canonical(self, value: Cell) -> Condition:
        # A pattern does not tell of all values whether they are.
        self.only(found := keys.are_canonical(value))
        return found

    def key_in_row(self, columns: Cell, row: Cell) -> Cell:
        key, names = keys.canonical_objects(columns)
        self.only(pc.is_valid(key))
        if row is not None:
            given = self.array(row, pa.binary())
            fits = keys.fit_rows(columns, key, names, pc.fill_null(given, b"{}"))
            self.only(fits | as_mask(pc.is_null(given)))
        return key

    def same(self, value: Cell, canonical: Cell) -> Condition:
        return self.equal(value, canonical)

    def units(self, nanos: Cell, unit: int) -> Cell:
        # Arrow divides towards zero, and times before 1970 are negative.
        quotient = pc.divide(self.array(nanos, pa.int64()), unit)
        return pc.subtract(quotient, pc.greater(pc.multiply(quotient, unit), nanos).cast(pa.int64()))

    def components(self, position: Cell, count: int) -> tuple[Cell, ...]:
        if position is None:
            return (None,) * count
        self.only(are_positions(position) | ~self.present(position))
        pattern = r"\.".join(f"[0-9]{{2}}(?P<n{place}>[0-9]{{1,18}})" for place in range(count))
        found = pc.extract_regex(position, f"^{pattern}$")
        if found.null_count:
            # Larger numbers have no place in a column.
            as_many = as_mask(pc.equal(pc.count_substring(position, "."), count - 1))
            self.only(~as_many | as_mask(pc.is_valid(found)))
        return tuple(part.cast(pa.int64()) for part in found.flatten())

    def sole_value(self, key: Cell) -> Cell:
        return pc.struct_field(pc.extract_regex(self.array(key, pa.string()), _SOLE), "value")

    def content(self, raw: Cell) -> Cell:
        given = self.array(raw, pa.binary())
        quoted = pc.starts_with(given, b'"')
        found = pc.if_else(quoted, pc.binary_slice(given, 1, -1), given).cast(pa.string())
        escaped = pc.and_(quoted, pc.match_substring(given, "\\"))
        if not pc.any(escaped).as_py():
            return found
        texts = pa.array(decoded(given.filter(escaped), _texts), pa.string())
        return pc.replace_with_mask(found, pc.fill_null(escaped, False), texts)

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
            return [None if columns is None else part.shell(others)]

        return self.by_members(made, (image,))[0]

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

    def check_object(self, text: Cell) -> None:
        if text is not None:
            self.only(are_objects(text))

    def check_depth(self, text: Cell) -> None:
        if text is not None:
            self.only(are_shallow(text))


def _transactions(ids: pa.Array, *parts: pa.Array) -> pa.Array:
    """Transactions as a column; null where the id is."""
    mask = None if not ids.null_count else pc.is_null(ids)
    if mask is not None:
        # What a null transaction would have is of no concern, and differs from reader to reader if it is kept.
        ids = pc.fill_null(ids, "")
    return pa.StructArray.from_arrays([ids, *parts], fields=list(arrow_layouts.TRANSACTION), mask=mask)
