"""Normalised keys of rows: keys that are equal by type are equal as text, however the record spelled them.

A key is a JSON array of canonical values in the order of the replica's key columns, so that names may change.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.formats import registry
from changeling.formats.type_table import CANONICAL, TypeTable
from changeling.model import canonical, json_text
from changeling.model.canonical import Convert
from changeling.model.errors import Rejected
from changeling.model.types import Type
from changeling.replicas.shape import Columns, Shape
from changeling.replicas.value_kinds import undeclared
from changeling.replicas.values import fitted

_SHORT, _LONG = "[1-9][0-9]{0,8}", "[1-9][0-9]{0,17}"
"""Numbers with so many digits always fit."""
_QUICK = {
    "string": r'"[^"\\]*"',
    "int32": f"0|-?{_SHORT}",
    "int64": f"0|-?{_LONG}",
    "uint32": f"0|{_SHORT}",
    "uint64": f"0|{_LONG}",
}
"""Values of these kinds that are normalised as they are, as a pattern."""


def types_of(encoding: str) -> TypeTable:
    """The type table of a convention."""
    return CANONICAL if encoding == "canonical" else registry.get(encoding).types


class Reader(NamedTuple):
    """Where the values of one name go, and how they become canonical values of the column's type."""

    id: str
    read: Convert
    kind: Type
    declared: bool
    """A schema declares the type: values may be spelled in every way that the dialect knows."""


def reader_of(columns: Columns, shape: Shape, encoding: str, version: int | None, name: str) -> Reader | None:
    """How values of that name are read; None where they are skipped."""
    place = columns.target_of(version, name)
    if place is None:
        return None
    kind = next((column.kind for column in shape.columns if column.id == place.id), None)
    if kind is None:
        return None
    table = types_of(encoding)
    if place.declared is None:
        return Reader(place.id, table.untyped_read or same, kind, declared=False)
    declared = place.declared.canonical
    read = table.reader(declared, place.declared.original_type)
    return Reader(place.id, read if declared == kind else _widened(read, declared, kind), kind, declared=True)


def same(raw: bytes) -> bytes:
    """A value that needs no conversion."""
    return raw


def _widened(read: Convert, declared: Type, kind: Type) -> Convert:
    """Reads values of a narrower type exactly as before the column was widened."""
    fit, widen = fitted(declared), canonical.reader(kind)

    def both(raw: bytes) -> bytes:
        plain = read(raw)
        return plain if plain == b"null" else widen(fit(plain))

    return both


class KeyReader:
    """Normalises keys of one table that have one encoding and one version of the schema."""

    def __init__(self, columns: Columns, shape: Shape, encoding: str, version: int | None) -> None:
        self._readers: dict[str, Reader | None] = {}
        self._columns, self._shape, self._encoding, self._version = columns, shape, encoding, version
        self._order = {number: place for place, number in enumerate(shape.key)}

    def __call__(self, keys: pa.Array) -> pa.Array:
        """The normalised keys; NULL for one that does not fit the key's columns."""
        quick = self._quick(keys)
        if quick is not None:
            return quick
        return pa.array([None if key is None else self.one(key) for key in keys.to_pylist()], pa.string())

    def one(self, key: str) -> str | None:
        """One key."""
        try:
            return self.of(json_text.members(key))
        except (Rejected, ValueError, msgspec.DecodeError):
            return None

    def of(self, members: dict[str, bytes]) -> str:
        """The key of these members; raises `ValueError` where they are not the key or do not fit."""
        values: list[bytes | None] = [None] * len(self._order)
        for name, raw in members.items():
            found = self._reader(name)
            if found is not None:
                values[self._order[found.id]] = raw if raw == b"null" else normal(raw, found)
        if None in values or not values:
            raise Rejected("the key lacks a column")
        return json_text.join_array(value for value in values if value is not None).decode()

    def _reader(self, name: str) -> Reader | None:
        if name not in self._readers:
            found = reader_of(self._columns, self._shape, self._encoding, self._version, name)
            self._readers[name] = found if found is not None and found.id in self._order else None
        return self._readers[name]

    def _quick(self, keys: pa.Array) -> pa.Array | None:
        """For keys of one column whose values are normalised already."""
        if len(self._order) != 1 or keys.null_count or not len(keys):
            return None
        name = next(iter(json_text.members(keys[0].as_py())), None)
        found = None if name is None else self._reader(name)
        if name is None or found is None or not _spelled_alike(found, self._encoding):
            return None
        head = f"{{{json_text.quote(name).decode()}:"
        value = _QUICK[found.kind.kind]
        if not pc.all(pc.match_substring_regex(keys, f"^{re.escape(head)}(?:{value})}}$")).as_py():
            return None
        values = pc.utf8_slice_codeunits(keys, len(head), -1)
        return pc.binary_join_element_wise("[", values, "]", "").cast(pa.string())


def _spelled_alike(reader: Reader, encoding: str) -> bool:
    if reader.kind.kind not in _QUICK:
        return False
    return reader.read is canonical.reader(reader.kind) if reader.declared else types_of(encoding).untyped_read is None


def normal(raw: bytes, reader: Reader) -> bytes:
    """The normalised value of its type; raises `ValueError` where it does not fit."""
    value = reader.read(raw)
    if value == b"null":
        return value
    if not reader.declared:
        if not _is_of(value, reader.kind):
            raise Rejected("the value has another type")
        return json_text.canonical(value)
    if reader.kind.kind == "decimal" and value[:1] == b'"':
        number = value[1:-1]
        # Infinities and NaN have no digits.
        return value if number.lstrip(b"-")[:1].isalpha() else b'"%b"' % json_text.canonical_number(number)
    return json_text.canonical(value)


def _is_of(value: bytes, kind: Type) -> bool:
    """Whether a plain JSON value is of the kind that a column without a schema has."""
    first = value[:1]
    if kind.kind == "json":
        return True
    if kind.kind == "string":
        return first == b'"'
    if kind.kind == "bool":
        return first in b"tf"
    if first in b'"tf{[':
        return False
    if kind.kind == "int64":
        return value.lstrip(b"-").isdigit() and -(2**63) <= int(value) < 2**63
    return not undeclared([value], kind)[1]


def object_text(key: str, shape: Shape) -> str:
    """A key as an object by the names of its columns, for people."""
    values = json_text.items(key)
    if not shape.key or len(values) != len(shape.key):
        return key
    return json_text.join(zip((column.name for column in shape.key_columns), values, strict=True)).decode()


def content_key(cells: Sequence[tuple[str, bytes]]) -> str:
    """The key of a row without one: its values by column, without NULLs."""
    return json_text.join(sorted((number, value) for number, value in cells if value != b"null")).decode()
