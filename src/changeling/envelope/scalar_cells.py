"""The cells of one record: plain values."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

import msgspec
import numpy as np

from changeling.envelope.cells import (
    Absent,
    Cell,
    Cells,
    Condition,
    Members,
    MemberStruct,
    Names,
    Reason,
    as_bytes,
    template,
)
from changeling.envelope.csv_rows import CsvRow, RowStyle
from changeling.envelope.key_in_row import check_key
from changeling.envelope.objects import in_order
from changeling.model import json_text, position, times
from changeling.model.change import Transaction
from changeling.model.errors import Rejected

_BOOL = (np.False_, np.True_)
"""Truth values that `~` works on, as it does on masks."""


class ScalarCells(Cells):
    """The cells of one record."""

    is_columnar = False

    def __init__(self, templates: bool = False) -> None:
        self._templates = templates

    def expect(self, condition: Condition, reason: Reason = "") -> None:
        if not condition:
            self.refuse(reason)

    def usually(self, condition: Condition) -> bool:
        return bool(condition)

    def branch(self, condition: Condition) -> bool:
        return bool(condition)

    def refuse(self, reason: Reason) -> NoReturn:
        raise Rejected(reason if isinstance(reason, str) else reason())

    def one_by_one(self) -> None:
        pass

    def any(self, condition: Condition) -> bool:
        return bool(condition)

    def all(self, condition: Condition) -> bool:
        return bool(condition)

    def each(self, function: Callable[..., Any], *cells: Cell) -> Cell:
        return function(*cells)

    def each_row(self, function: Callable[..., Any], *cells: Cell) -> Cell:
        return function(*cells)

    def holds(self, function: Callable[..., bool], *cells: Cell) -> Condition:
        return _BOOL[bool(function(*cells))]

    def common(self, cell: Cell) -> Any:
        return cell

    def limit(self, value: Cell, count: int) -> None:
        pass

    def by_value(self, function: Callable[..., Sequence[Cell]], value: Cell, *cells: Cell) -> Sequence[Cell]:
        return function(self, value, *cells)

    def by_shape(self, function: Callable[..., Sequence[Cell]], texts: Sequence[Cell], *cells: Cell) -> Sequence[Cell]:
        return function(self, *(None if text is None else json_text.members(text) for text in texts), *cells)

    def each_object(self, function: Callable[..., Any], text: Cell, *others: Cell) -> Cell:
        if text is None:
            return None
        return function(_names(text), *(None if other is None else _names(other) for other in others))

    def mask(self, truth: Any) -> Condition:
        return _BOOL[bool(truth)]

    def present(self, cell: Cell) -> Condition:
        return _BOOL[cell is not None]

    def equal(self, cell: Cell, other: Cell) -> Condition:
        if type(cell) is type(other):
            return _BOOL[cell is not None and cell == other]
        return _BOOL[cell is not None and as_bytes(cell) == as_bytes(other)]

    def one_of(self, cell: Cell, values: Collection[str]) -> Condition:
        return _BOOL[cell in values]

    def starts(self, cell: Cell, head: bytes) -> Condition:
        if type(cell) is bytes and cell.startswith(head):
            return np.True_
        return _BOOL[cell is not None and as_bytes(cell).lstrip().startswith(head)]

    def matches(self, cell: Cell, pattern: str) -> Condition:
        return _BOOL[cell is not None and re.fullmatch(pattern, _as_text(cell)) is not None]

    def contains(self, cell: Cell, parts: Sequence[bytes]) -> Condition:
        return _BOOL[cell is not None and any(part in as_bytes(cell) for part in parts)]

    def where(self, condition: Condition, cell: Cell, other: Cell) -> Cell:
        return cell if condition else other

    def first(self, *cells: Cell) -> Cell:
        for cell in cells:
            if cell is not None:
                return cell
        return None

    def joined(self, *parts: Cell) -> Cell:
        try:
            return b"".join(parts)
        except TypeError:
            return None if None in parts else b"".join(map(as_bytes, parts))

    def envelope(self, text: Cell) -> Members:
        return json_text.members(text)

    def object_meta(self, name: str, text: Cell, known: Mapping[str, tuple[str, Cell]]) -> Cell:
        members = json_text.members(text) if self._templates else {}
        if members and json_text.join(members.items()) == text:
            left_out = {
                member: origin
                for member, (origin, value) in known.items()
                if member in members and members[member] == as_bytes(value)
            }
            if left_out:
                rest = {member: value for member, value in members.items() if member not in left_out}
                return template(name, members, rest, left_out)
        return self.joined(b"{" + json_text.head(name), text, b"}")

    def members(self, text: Cell, name: str = "", optional: Names = (), usual: Names = ()) -> Members:
        return json_text.named(name, json_text.members)(text) if name else json_text.members(text)

    def names(self, text: Cell) -> tuple[str, ...]:
        return tuple(_names(text))

    def items(self, text: Cell, count: int, wrong: Callable[[int], str]) -> list[Cell]:
        found = json_text.items(text)
        if len(found) != count:
            raise Rejected(wrong(len(found)))
        return found

    def csv_row(self, text: Cell, style: RowStyle) -> CsvRow:
        return style.split(text.decode())

    def doubled(self, text: Cell, letter: str) -> Cell:
        return None if text is None else _as_text(text).replace(letter, letter * 2)

    def parse_natural_json(self, raw: Cell) -> Cell:
        return int(raw) if _NATURAL.fullmatch(raw) and int(raw) < 2**63 else None

    def is_set(self, cell: Cell) -> Condition:
        return _BOOL[cell is not None and cell is not msgspec.UNSET]

    def struct(self, kind: MemberStruct, text: Cell) -> Any:
        found = None if text is None else kind.decode(text)
        return Absent() if found is None else found

    def json_object(self, members: Mapping[str, Cell], nulled: Sequence[str] = ()) -> Cell:
        # Writing a single record spends most of its time here.
        parts = [
            json_text.head(name) + (b"null" if name in nulled else text if type(text) is bytes else as_bytes(text))
            for name, text in members.items()
            if text is not None
        ]
        return b"{%b}" % b",".join(parts)

    def text(self, raw: Cell) -> Cell:
        return None if raw is None else json_text.string(raw)

    def document(self, members: Mapping[str, Cell], side: str) -> Cell:
        raw = self.value(members, side)
        found = json_text.string(raw) if raw is not None and raw[:1] == b'"' else raw
        if found is not None and found.lstrip()[:1] not in ("{", b"{"):
            raise Rejected(f"`{side}` must be a JSON object, or one as text")
        return found

    def quoted(self, text: Cell) -> Cell:
        return json_text.quote(text.decode() if isinstance(text, bytes) else text)

    def int_json(self, number: Cell) -> Cell:
        return b"null" if number is None else b"%d" % number

    def padded(self, number: Cell, width: int) -> Cell:
        return None if number is None else str(number).zfill(width)

    def size(self, text: Cell) -> Cell:
        return None if text is None else len(as_bytes(text))

    def as_text(self, cell: Cell) -> Cell:
        return cell if isinstance(cell, str) else None

    def plus(self, number: Cell, other: Cell) -> Cell:
        return None if number is None or other is None else number + other

    def at_least(self, number: Cell, least: int) -> Cell:
        return None if number is None else max(number, least)

    def int_or_text(self, cell: Cell, name: str) -> Cell:
        if cell is None or isinstance(cell, int):
            return cell
        if not _INTEGER.fullmatch(cell):
            raise Rejected(f"{name} is {cell[:40]!r}, which is not an integer")
        return int(cell)

    def captured(self, text: Cell, pattern: str) -> tuple[Cell, ...]:
        found = None if text is None else re.fullmatch(pattern, _as_text(text))
        return (None,) * re.compile(pattern).groups if found is None else tuple(map(int, found.groups()))

    def behind(self, text: Cell, pattern: str) -> tuple[Cell, ...]:
        found = re.match(pattern, text.decode())
        if found is None:
            return (None,) * (re.compile(pattern).groups + 1)
        return *found.groups(), text[len(found[0].encode()) :].rstrip()

    def parse_int(self, text: Cell) -> Cell:
        return None if text is None else int(text)

    def changed(self, text: Cell, mark: bytes, function: Callable[[str], str]) -> Cell:
        return None if text is None else function(text)

    def check_position(self, text: Cell) -> None:
        position.decode(text)

    def is_position(self, text: Cell) -> Condition:
        try:
            return _BOOL[text is not None and bool(position.decode(text))]
        except Rejected:
            return np.False_

    def int_text(self, number: Cell) -> Cell:
        return None if number is None else str(number)

    def position(self, *numbers: Cell) -> Cell:
        return position.encode(*numbers)

    def time(self, number: Cell, unit: int) -> Cell:
        return None if number is None else times.from_units(number, unit)

    def transaction(self, name: Cell, order: Cell = None, total: Cell = None, complete: Cell = None) -> Cell:
        return None if name is None else Transaction(name, order, total, complete)

    def columns(self, row: Cell, names: tuple[str, ...]) -> Members:
        found = json_text.members(row)
        return {name: found.get(name) for name in names}

    def key(self, columns: Mapping[str, Cell]) -> Cell:
        return json_text.canonical_key(columns.items())

    def canonical(self, value: Cell) -> Condition:
        return _BOOL[json_text.canonical(value) == value]

    def key_in_row(self, columns: Cell, row: Cell) -> Cell:
        found = json_text.members(columns)
        if row is not None:
            check_key(found, as_bytes(row))
        return json_text.canonical_key(found.items())

    def ordered(self, text: Cell, names: tuple[str, ...]) -> Condition:
        return _BOOL[text is not None and re.search(in_order(names), text.decode()) is not None]

    def less(self, number: Cell, limit: int) -> Condition:
        return _BOOL[number is not None and number < limit]

    def same(self, value: Cell, canonical: Cell) -> Condition:
        return _BOOL[value is not None and json_text.canonical(value) == canonical]

    def units(self, nanos: Cell, unit: int) -> Cell:
        return None if nanos is None else nanos // unit

    def components(self, text: Cell, count: int) -> tuple[Cell, ...]:
        found = () if text is None else position.decode(text)
        return found if len(found) == count else (None,) * count

    def sole_value(self, key: Cell) -> Cell:
        found = list(json_text.members(key or b"{}").values())
        return found[0] if len(found) == 1 else None

    def content(self, raw: Cell) -> Cell:
        return json_text.string(raw).encode() if raw[:1] == b'"' else raw

    def without_key(self, image: Cell, key: Cell) -> Cell:
        if image is None:
            return None
        names = _names(key or b"{}")
        return json_text.join((name, value) for name, value in json_text.members(image).items() if name not in names)

    def without_end(self, text: Cell) -> Cell:
        return None if text is None else text[:-1]

    def with_front(self, front: Cell, text: Cell) -> Cell:
        if front is None or text is None:
            return None
        rest = as_bytes(text)[1:]
        return b"%b%b%b" % (as_bytes(front), b"" if rest == b"}" else b",", rest)

    def fields(self, struct: Cell) -> Any:
        return Absent() if struct is None else struct

    def lose(self, out: Any, condition: Condition, feature: str, why: Reason) -> None:
        if condition:
            out.lose(feature, why if isinstance(why, str) else why())

    def check_object(self, text: Cell) -> None:
        if text is not None:
            _object(text)

    def check_depth(self, text: Cell) -> None:
        if text is not None and len(text) > 2 * json_text.DEPTH_LIMIT:
            json_text.check_depth(as_bytes(text))


class _Any(msgspec.Struct, gc=False):
    """Any object."""


_INTEGER = re.compile("-?[0-9]{1,100}")
_NATURAL = re.compile(rb"0|[1-9][0-9]{0,18}")
_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_object = msgspec.json.Decoder(_Any).decode
SCALARS = ScalarCells()


def _as_text(text: str | bytes) -> str:
    return text if isinstance(text, str) else text.decode()
