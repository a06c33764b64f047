"""What framing gives: the raw bytes of records, in blocks."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

HEAD = 1024


@dataclass(frozen=True, slots=True)
class Oversized:
    """A record over the size limit: its first bytes and its length. The rest was passed over and never held."""

    head: bytes
    length: int


Piece: TypeAlias = bytes | Oversized
Block: TypeAlias = pa.Array | list[Piece]
"""Records that follow each other: a binary array where they could be cut at once, else a list."""


def size(piece: Piece) -> int:
    """How many bytes a record has."""
    return piece.length if isinstance(piece, Oversized) else len(piece)


class Readable(Protocol):
    """All that framing needs of a stream: `read(n)` gives up to n bytes, and none at the end only."""

    def read(self, size: int, /) -> bytes:
        """The next bytes."""
        ...
