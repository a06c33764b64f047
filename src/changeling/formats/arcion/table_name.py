"""Arcion's `tableName`: catalog, schema and name, with the two hashes that Java gives them."""

import functools
from array import array
from collections.abc import Iterable

import msgspec

from changeling.model import json_text
from changeling.model.json_text import quote
from changeling.model.table import TableName


class _Namespace(msgspec.Struct):
    catalog: str | None = None
    schema: str | None = None


class _Name(msgspec.Struct):
    name: str
    namespace: _Namespace | None = None


_read = json_text.labelled("tableName", msgspec.json.Decoder(_Name | None).decode)


def _hash(numbers: Iterable[int], first: int) -> int:
    """Java's hash of these numbers, in 32 bits."""
    total = functools.reduce(lambda total, number: (31 * total + number) & 0xFFFFFFFF, numbers, first)
    return (total ^ 0x80000000) - 0x80000000


def string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units."""
    return _hash(array("H", text.encode("utf-16", "surrogatepass"))[1:], 0)


def objects_hash(*items: str | int | None) -> int:
    """Java's `Objects.hash` of strings, ints and nulls."""
    return _hash((string_hash(item) if isinstance(item, str) else item or 0 for item in items), 1)


def read(raw: bytes) -> TableName | None:
    """The table that a `tableName` names, None for JSON null; raises `Rejected` where it is of another shape."""
    found = _read(raw)
    if found is None:
        return None
    space = found.namespace or _Namespace()
    return TableName(space.catalog, space.schema, found.name)


@functools.lru_cache(maxsize=4096)
def write(table: TableName | None) -> bytes:
    """The `tableName` of a table, hashes computed; JSON null for none."""
    if table is None:
        return b"null"
    space = objects_hash(table.catalog, table.schema)
    namespace = {"catalog": table.catalog, "schema": table.schema, "hash": space}
    return quote({"namespace": namespace, "name": table.name, "hash": objects_hash(space, table.name)})
