"""Framing of pgoutput messages: where each is in one buffer, and parsers for the rare kinds."""

import struct
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from changeling.model.errors import ChangelingError
from changeling.postgres.tuples import PADDING

Chunk: TypeAlias = "list[bytes] | tuple[bytes, np.ndarray]"
"""Messages one by one, or concatenated with the length of each."""

_PAD = bytes(PADDING)
_LARGEST = 2**31 - 1
"""Offsets in a buffer are 32-bit numbers."""


class Frames(NamedTuple):
    """Messages concatenated in one buffer, which has padding at its end."""

    data: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    letters: np.ndarray
    """The first byte of each, which is its kind."""

    def body(self, message: int) -> bytes:
        """The bytes of a message after its first."""
        return self.data[self.starts[message] + 1 : self.ends[message]].tobytes()


def cut(chunk: Chunk, header: int = 0) -> Frames:
    """The messages of a chunk, without the first `header` bytes of each."""
    if isinstance(chunk, tuple):
        whole, lengths = b"".join((chunk[0], _PAD)), np.asarray(chunk[1], np.int64)
    else:
        whole = b"".join((*chunk, _PAD))
        lengths = np.fromiter(map(len, chunk), np.int64, len(chunk))
    ends = np.cumsum(lengths)
    if (lengths <= header).any() or (ends[-1] if len(ends) else 0) != len(whole) - PADDING:
        raise ChangelingError("the replication stream has an empty message, or lengths that do not match its bytes")
    if len(whole) > _LARGEST:
        raise ChangelingError("a chunk of the replication stream is larger than 2 GB: pass fewer messages at once")
    data = np.frombuffer(whole, np.uint8)
    starts = ends - lengths + header
    return Frames(data, starts, ends, data[starts])


def parts_of(chunk: Chunk, size: int) -> Iterator[Chunk]:
    """The chunk in parts of about `size` bytes; a larger message is a part of its own."""
    given = chunk[1] if isinstance(chunk, tuple) else np.fromiter(map(len, chunk), np.int64, len(chunk))
    ends = np.cumsum(given)
    bounds = np.append(np.flatnonzero(np.diff((ends - 1) // size)) + 1, len(ends)).tolist()
    begins = [0, *bounds[:-1]]
    for first, end in zip(begins, bounds, strict=True):
        if isinstance(chunk, tuple):
            start = int(ends[first - 1]) if first else 0
            yield chunk[0][start : int(ends[end - 1]) if end else 0], given[first:end]
        else:
            yield chunk[first:end]


class WireColumn(NamedTuple):
    """A column as a Relation message describes it."""

    name: str
    type: int
    typmod: int
    is_identity: bool
    """Part of the replica identity: where that is full, every column is."""


class WireRelation(NamedTuple):
    """A table as a Relation message describes it at its point of the stream."""

    oid: int
    schema: str
    name: str
    identity: str
    """The letter of `pg_class.relreplident`: d, n, f or i."""
    columns: tuple[WireColumn, ...]


class _Cursor:
    """Reads the fields of a message in order."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def fields(self, layout: str) -> tuple[int, ...]:
        try:
            found = struct.unpack_from(layout, self._body, self._at)
        except struct.error:
            raise _too_short() from None
        self._at += struct.calcsize(layout)
        return found

    def text(self) -> str:
        end = self._body.find(0, self._at)
        if end < 0:
            raise _too_short()
        found = self._body[self._at : end].decode(errors="replace")
        self._at = end + 1
        return found

    def rest(self, length: int) -> bytes:
        return self._body[self._at : self._at + length]


def _too_short() -> ChangelingError:
    return ChangelingError("the replication stream has a message that ends too early")


def type_name(body: bytes) -> tuple[int, str, str]:
    """The oid of a type, its schema and its name, from a Type message."""
    cursor = _Cursor(body)
    return cursor.fields(">I")[0], cursor.text(), cursor.text()


def relation(body: bytes) -> WireRelation:
    """The table of a Relation message."""
    cursor = _Cursor(body)
    (oid,) = cursor.fields(">I")
    # For pg_catalog, the schema is sent as an empty text.
    schema, name = cursor.text() or "pg_catalog", cursor.text()
    identity, count = cursor.fields(">BH")
    columns = []
    for _ in range(count):
        (flags,) = cursor.fields(">B")
        column = cursor.text()
        kind, typmod = cursor.fields(">Ii")
        columns.append(WireColumn(column, kind, typmod, bool(flags & 1)))
    return WireRelation(oid, schema, name, chr(identity), tuple(columns))


class LogicalMessage(NamedTuple):
    """What `pg_logical_emit_message` wrote."""

    prefix: str
    content: bytes


def logical_message(body: bytes) -> LogicalMessage:
    """Prefix and content of a Message message."""
    cursor = _Cursor(body)
    cursor.fields(">BQ")
    prefix = cursor.text()
    return LogicalMessage(prefix, cursor.rest(cursor.fields(">I")[0]))
