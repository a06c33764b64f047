"""Reads a stream, decompressed where it is gzip; reports how far it got, and what could not be decompressed."""

import zlib
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from changeling.files.raw_records import HEAD, Readable

_MAGIC = b"\x1f\x8b\x08"
_PART = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Damage:
    """Why the rest of a compressed stream cannot be read, and the first compressed bytes of it."""

    reason: str
    raw: bytes


class Input:
    """A stream to read once. Gzip is recognised by its first bytes; consecutive members are one text.

    A broken or truncated gzip stream raises nothing: all that can be decompressed is returned, then `damage` is set.
    """

    def __init__(self, source: Readable) -> None:
        self._source = source
        self.consumed = 0
        """Bytes read from the file so far, before decompression."""
        self.damage: Damage | None = None
        self._packed = b""
        while len(self._packed) < len(_MAGIC) and (more := self._take(len(_MAGIC) - len(self._packed))):
            self._packed += more
        self._unpacker = zlib.decompressobj(wbits=31) if self._packed == _MAGIC else None

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes (a little more before damage); fewer only at the end, none after it."""
        if self._unpacker is not None:
            return self._unpack(size)
        parts, self._packed = [self._packed], b""
        missing = size - len(parts[0])
        while missing > 0 and (more := self._take(missing)):
            parts.append(more)
            missing -= len(more)
        return b"".join(parts) if len(parts) != 2 or parts[0] else parts[1]

    def close(self) -> None:
        """Closes the underlying file; standard input stays open."""
        close = getattr(self._source, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take(self, size: int) -> bytes:
        data = self._source.read(size)
        self.consumed += len(data)
        return data

    def _unpack(self, size: int) -> bytes:
        parts: list[bytes] = []
        missing = size
        while missing > 0 and self.damage is None and self._unpacker is not None:
            if self._unpacker.eof and not self._next_member():
                break
            packed = self._packed or self._take(_PART)
            before = self._unpacker.copy()
            try:
                part = self._unpacker.decompress(packed, missing)
            except zlib.error as error:
                part, rest = _salvage(before, packed)
                self.damage = Damage(f"the gzip stream is broken: {error}", rest[:HEAD])
                parts.append(part)
                break
            self._packed = self._unpacker.unused_data if self._unpacker.eof else self._unpacker.unconsumed_tail
            if not packed and not part and not self._unpacker.eof:
                self.damage = Damage("the gzip stream ends too early", b"")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _next_member(self) -> bool:
        """Whether another member follows. Zeros after the last one are padding; anything else is damage."""
        while True:
            self._packed = self._packed.lstrip(b"\0")
            if len(self._packed) >= len(_MAGIC):
                break
            more = self._take(_PART)
            if not more:
                break
            self._packed += more
        if self._packed.startswith(_MAGIC):
            self._unpacker = zlib.decompressobj(wbits=31)
            return True
        if self._packed:
            self.damage = Damage("what follows the gzip stream is not gzip", self._packed[:HEAD])
        self._packed = b""
        return False


def _salvage(unpacker: "zlib._Decompress", packed: bytes) -> tuple[bytes, bytes]:
    """What can be decompressed before the error, and the compressed bytes from there on: zlib gives none of it when it fails."""
    parts = []
    for place in range(len(packed)):
        try:
            parts.append(unpacker.decompress(packed[place : place + 1]))
        except zlib.error:
            return b"".join(parts), packed[place:]
    return b"".join(parts), b""
