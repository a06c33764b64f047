"""The values of rows as a replica holds them, read from the images of changes."""

import re
from collections.abc import Mapping

from changeling.model import canonical, json_text
from changeling.model.canonical import Convert
from changeling.model.types import Type
from changeling.replicas.json_output import json_column, stored_form
from changeling.replicas.keys import reader_of, same
from changeling.replicas.shape import Columns, ReplicaColumn, Shape
from changeling.replicas.value_kinds import undeclared
from changeling.replicas.values import UNREADABLE

Row = Mapping[str, bytes]
"""The values of a row that are not NULL, by the id of their column: canonical JSON, as the column holds them."""
_PLAIN = {
    "string": re.compile(rb'"[^"\\]*"'),
    "int64": re.compile(rb"0|-?[1-9][0-9]*"),
    "bool": re.compile(rb"true|false"),
}
"""Values that their columns hold as they come."""


class Values:
    """Reads images of a table: canonical values by column."""

    def __init__(self, columns: Columns, shape: Shape) -> None:
        self._columns, self._shape = columns, shape
        self._readers: dict[tuple[str, int | None, str], tuple[str, Convert] | None] = {}
        self._key = [
            (column.id, inferred(column.kind) if column.id.startswith("+") else stored_form(column.kind))
            for column in shape.key_columns
        ]

    def row(self, text: str | None, encoding: str, version: int | None) -> tuple[dict[str, bytes], bool]:
        """The values of an image, NULLs among them, and whether all of them fit their columns: those that do not are left out."""
        found, whole = {}, True
        for name, raw in json_text.members(text or b"{}").items():
            reader = self._reader(encoding, version, name)
            if reader is None:
                continue
            number, convert = reader
            try:
                found[number] = raw if raw == b"null" else convert(raw)
            except UNREADABLE:
                whole = False
        return found, whole

    def key(self, key: str) -> dict[str, bytes]:
        """The values of a normalised key, as the columns hold them."""
        return {
            number: value if value == b"null" else convert(value)
            for (number, convert), value in zip(self._key, json_text.items(key), strict=True)
        }

    def _reader(self, encoding: str, version: int | None, name: str) -> tuple[str, Convert] | None:
        place = (encoding, version, name)
        if place not in self._readers:
            found = reader_of(self._columns, self._shape, encoding, version, name)
            if found is None:
                self._readers[place] = None
            elif not found.declared:
                self._readers[place] = found.id, inferred(found.kind, None if found.read is same else found.read)
            elif found.read is canonical.reader(found.kind):
                # Which the stored form begins with as well.
                self._readers[place] = found.id, stored_form(found.kind)
            else:
                self._readers[place] = found.id, _both(found.read, stored_form(found.kind))
        return self._readers[place]


def inferred(kind: Type, read: Convert | None = None) -> Convert:
    """From a value of a column that no schema declares to its canonical form as the column holds it."""
    plain = _PLAIN.get(kind.kind)

    def convert(raw: bytes) -> bytes:
        if read is None and plain is not None and plain.fullmatch(raw):
            return raw
        array, unfit = undeclared([raw], kind, read)
        if unfit:
            raise ValueError(f"{raw[:60].decode(errors='replace')} is of another kind than {kind}")
        return json_column(array, kind)[0]

    return convert


def widened(was: ReplicaColumn, now: ReplicaColumn) -> Convert:
    """From a value as a column held it to the value as it holds it now: what reading the change again would give."""
    convert = stored_form(now.kind) if now.is_declared else inferred(now.kind)
    if was.kind.kind != "decimal":
        return convert
    # A bare number, which every kind takes.
    return lambda raw: convert(canonical.text_of(raw).encode())


def _both(read: Convert, store: Convert) -> Convert:
    def convert(raw: bytes) -> bytes:
        plain = read(raw)
        return plain if plain == b"null" else store(plain)

    return convert
