"""Splits a byte stream into records: JSON values, or rows of CSV.

No byte is lost: all that is neither blank nor a separator ends in a record, and what cannot be one is a record for the decoder
to reject. Files of any size are split in bounded memory. A record over `limit` comes as `Oversized`.
"""

from collections.abc import Iterable, Iterator

from changeling.files.json_split import JsonSplitter
from changeling.files.pieces import Block, Oversized, Piece, Readable
from changeling.files.text_split import row_blocks
from changeling.formats.framing import CsvRows, Framing, JsonOrCsv, JsonValues
from changeling.model.json_text import SIZE_LIMIT

CHUNK_SIZE = 4 * 1024 * 1024
"""Measured: 1 MB to 4 MB are quickest, below and above are up to a third slower."""

__all__ = ["Block", "Oversized", "Piece", "blocks", "csv_rows", "json_values", "settled"]

_BLANKS = b" \t\r\n\xef\xbb\xbf"


def settled(stream: Readable, framing: Framing) -> tuple[Readable, JsonValues | CsvRows]:
    """The framing of a file that may be of two kinds, by its first letter, and the stream to read on from."""
    if not isinstance(framing, JsonOrCsv):
        return stream, framing
    head = b""
    while not head.lstrip(_BLANKS) and (more := stream.read(CHUNK_SIZE)):
        head += more
    is_json = head.lstrip(_BLANKS)[:1] in (b"{", b"[")
    return _Rejoined(head, stream), framing.json if is_json else framing.csv


class _Rejoined:
    """A stream whose first bytes were read before."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int, /) -> bytes:
        if not self._head:
            return self._rest.read(size)
        given, self._head = self._head[:size], self._head[size:]
        return given


def blocks(
    stream: Readable, framing: JsonValues | CsvRows, *, chunk_size: int = CHUNK_SIZE, limit: int = SIZE_LIMIT
) -> Iterator[Block]:
    """The records of a stream in blocks, each a binary array of Arrow (where that is quick) or a list."""
    if isinstance(framing, JsonValues):
        return JsonSplitter(stream, arrays=framing.arrays, chunk_size=chunk_size, limit=limit).blocks()
    return row_blocks(
        stream,
        delimiter=framing.delimiter.encode(),
        quote=framing.quote.encode(),
        escape=None if framing.escape is None else framing.escape.encode(),
        chunk_size=chunk_size,
        limit=limit,
    )


def json_values(
    stream: Readable, *, arrays: bool = True, chunk_size: int = CHUNK_SIZE, limit: int = SIZE_LIMIT
) -> Iterator[Piece]:
    """The raw bytes of each JSON value at the top level, however they stand; see `JsonSplitter` for the rules.

    With `arrays`, the items of an array at the top level are the values (of each of them, where there are several).
    """
    return _single(blocks(stream, JsonValues(arrays), chunk_size=chunk_size, limit=limit))


def csv_rows(
    stream: Readable,
    delimiter: str = ",",
    quote: str = '"',
    escape: str | None = None,
    *,
    chunk_size: int = CHUNK_SIZE,
    limit: int = SIZE_LIMIT,
) -> Iterator[Piece]:
    """The raw rows of CSV that are not empty, without their ends; see `row_blocks` for the rules."""
    return _single(blocks(stream, CsvRows(delimiter, quote, escape), chunk_size=chunk_size, limit=limit))


def _single(found: Iterable[Block]) -> Iterator[Piece]:
    for block in found:
        yield from block if isinstance(block, list) else block.to_pylist()
