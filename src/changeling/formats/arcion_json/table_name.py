"""Arcion's `tableName`: catalog, schema and name, with the two hashes that Java gives them."""

import functools

import msgspec

from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.table import TableName


class _Namespace(msgspec.Struct):
    catalog: str | None = None
    schema: str | None = None


class _Name(msgspec.Struct):
    name: str
    namespace: _Namespace | None = None


_read = msgspec.json.Decoder(_Name | None).decode


def _signed(value: int) -> int:
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, in 32 bits."""
    units = text.encode("utf-16-le", "surrogatepass")
    total = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        total = (31 * total + low + 256 * high) & 0xFFFFFFFF
    return _signed(total)


def objects_hash(*items: str | int | None) -> int:
    """Java's `Objects.hash` of strings, ints and nulls."""
    total = 1
    for item in items:
        own = 0 if item is None else item if isinstance(item, int) else string_hash(item)
        total = 31 * total + own
    return _signed(total)


def read(raw: bytes) -> TableName | None:
    """The table that a `tableName` names, None for JSON null; raises `Rejected` where it is of another shape."""
    try:
        found = _read(raw)
    except msgspec.DecodeError as error:
        raise Rejected(f"tableName: {error}") from None
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
    return quote(
        {
            "namespace": {"catalog": table.catalog, "schema": table.schema, "hash": space},
            "name": table.name,
            "hash": objects_hash(space, table.name),
        }
    )
