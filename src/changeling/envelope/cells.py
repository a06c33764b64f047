"""What a dialect says once, for one record or for a whole group: its parts are cells, and a cell is one value or a column of them.

A reader or a writer is one function over cells. With `ScalarCells` it is called with the values of one record, with `ColumnCells` with
the columns of all records of a shape. So both ways agree by construction. Where records of a group differ in what is to be done with them,
`ColumnCells` continues with those that take the usual branch. The others leave the group (`ShapeMismatch`) and form groups of their own;
what is left after some attempts is read record by record.
"""

import functools
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from changeling.envelope.csv_rows import RowStyle
from changeling.envelope.operations import (
    Cell,
    Condition,
    Members,
    Names,
    Operations,
    Reason,
    as_bytes,
)
from changeling.envelope.structs import Absent, MemberStruct
from changeling.model import json_text
from changeling.model.errors import Rejected

__all__ = ["Absent", "Cell", "Cells", "Condition", "MemberStruct", "Members", "Names", "Reason", "as_bytes"]


class Cells(Operations):
    """What can be done with cells."""

    def with_first(self, text: Cell, name: str, value: Cell) -> Cell:
        """A compact object with another member, JSON, in front of its own."""
        return self.with_members({name: value}, text)

    def with_members(self, members: Mapping[str, Cell], text: Cell) -> Cell:
        """A compact object with other members, JSON, in front of its own."""
        parts: list[Cell] = []
        for name, value in members.items():
            parts += [(b"," if parts else b"{") + json_text.head(name), value]
        return self.with_front(self.joined(*parts), text)

    def row_key(self, row: Mapping[str, Cell], names: Names) -> Cell:
        """The canonical key of these columns, none where none is named; rejects rows that lack one."""
        for name in names:
            if (value := row.get(name)) is None:
                self.refuse(f"the row lacks key column {name!r}")
            self.expect(self.present(value), f"the row lacks key column {name!r}")
        return self.key({name: row[name] for name in names}) if names else None

    def object_or_none(self, raw: Cell, name: str) -> Cell:
        """An object, or None; rejects anything else, by the name of its member."""
        if raw is not None and not self.usually(self.starts(raw, b"{") | ~self.present(raw)):
            try:
                json_text.members(raw)
            except msgspec.DecodeError as error:
                raise Rejected(f"{name}: {error}") from None
        return raw

    def refilled(self, members: Mapping[str, Cell], filling: Mapping[str, Cell]) -> Cell:
        """An object of these members; where `filling` has a value for one, that replaces its own."""
        return self.json_object({name: self.first(filling.get(name), value) for name, value in members.items()})

    def value(self, members: Mapping[str, Cell], name: str) -> Cell:
        """The value of a member; None where that is missing or `null`."""
        raw = members.get(name)
        return None if raw is None else self.where(self.equal(raw, b"null"), None, raw)

    def key_of(self, names: Collection[str], row: Members, lacks: str = "the row lacks key column {!r}") -> Cell:
        """The canonical key of these columns of a row, None where it has no names; rejects a row that lacks one of them."""
        for name in names:
            if name not in row:
                self.refuse(lacks.format(name))
        return self.key({name: row[name] for name in names}) if names else None

    def all_present(self, cells: Iterable[Cell]) -> Condition:
        """Where all of these have a value."""
        return functools.reduce(operator.and_, map(self.present, cells))

    def all_canonical(self, values: Iterable[Cell]) -> Condition:
        """Where all of these are in their canonical form."""
        return functools.reduce(operator.and_, map(self.canonical, values))

    def or_null(self, text: Cell) -> Cell:
        """The same JSON, or `null` where there is none."""
        return self.first(text, b"null")

    def json_object(self, members: Mapping[str, Cell], nulled: Sequence[str] = ()) -> Cell:
        """A compact object of the members that are present (the first always is); those in `nulled` become null."""
        parts: list[Cell] = []
        for name, text in members.items():
            if text is not None:
                parts += [(b"," if parts else b"{") + json_text.head(name), b"null" if name in nulled else text]
        return self.joined(*parts, b"}") if parts else b"{}"

    def sparse(self, members: Mapping[str, Cell]) -> Cell:
        """An object of those of these members that are present; None where none is."""
        found: Cell = None
        for name, text in members.items():
            if text is not None:
                part = self.joined(json_text.head(name), text)
                found = part if found is None else self.first(self.joined(found, b",", part), found, part)
        return self.joined(b"{", found, b"}")

    def merged(self, one: Cell, other: Cell) -> Cell:
        """A compact object with the members of both; each may be missing."""
        if one is None or other is None:
            return self.first(one, other)
        front = self.where(self.equal(one, b"{}"), None, one)
        return self.first(self.with_front(self.without_end(front), other), other, one)

    def with_key(self, image: Cell, key: Cell) -> Cell:
        """A compact image that has no columns of its key with these in front."""
        return self.where(self.present(image), self.merged(key, image), None)

    def csv_field(self, value: Cell) -> Cell:
        """The text of a value in CSV; none where it is NULL."""
        if value is None:
            return None
        nested = self.matches(value, r"(?s)[{\[].*")
        if self.any(nested) and not self.usually(~(nested & self.contains(value, [b" ", b"\t", b"\n", b"\r"]))):
            value = json_text.compact(value)
        return self.where(self.equal(value, b"null"), None, self.content(value))

    def csv_text(self, fields: Sequence[Cell], style: RowStyle, quoted: Collection[int] = ()) -> Cell:
        """A row of CSV of these texts; those at the places `quoted` are quoted even needlessly."""
        if quoted or not style.is_plain:
            self.one_by_one()
            texts = [field.decode() if isinstance(field, bytes) else field for field in fields]
            return style.print(texts, quoted).encode()
        delimiter, quote = style.delimiter.encode(), style.quote.encode()
        parts: list[Cell] = []
        for field in fields:
            if field is None or isinstance(field, str):
                parts += [*([delimiter] if parts else ()), style.field(field).encode()]
                continue
            odd = self.contains(field, [delimiter, quote, b"\n", b"\r"]) | self.equal(field, style.null_text)
            if len(fields) == 1:
                odd |= self.equal(field, "")
            shown = self.first(field, style.null_text)
            if self.any(odd):
                shown = self.where(odd, self.joined(quote, self.doubled(field, style.quote), quote), shown)
            parts += [*([delimiter] if parts else ()), shown]
        return self.joined(*parts)

    def array_of(self, values: Iterable[Cell]) -> Cell:
        """An array of these values."""
        parts: list[Cell] = []
        for value in values:
            parts += [b"," if parts else b"[", value]
        return self.joined(*parts, b"]") if parts else b"[]"


def template(name: str, names: Iterable[str], rest: Mapping[str, bytes], left_out: Mapping[str, str]) -> bytes:
    """`meta` of one member, an object, without values that other columns have."""
    inner = json_text.join((member, rest.get(member, b"null")) for member in names)
    origins = json_text.quote({f"{name}.{member}": origin for member, origin in left_out.items()})
    return b'{%b%b,"left_out":%b}' % (json_text.head(name), inner, origins)
