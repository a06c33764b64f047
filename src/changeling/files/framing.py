"""Splits a byte stream into records: JSON values, or rows of CSV.

No byte is lost: all that is neither blank nor a separator becomes part of a record, for the decoder to reject if need be.
Files of any size are split in bounded memory. A record over `limit` is given as `Oversized`.
"""

from collections.abc import Iterable, Iterator

from changeling.files.csv_split import row_blocks
from changeling.files.json_split import JsonSplitter
from changeling.files.raw_records import Block, Oversized, RawRecord, Readable
from changeling.formats.framing import CsvRows, Framing, JsonOrCsv, JsonValues
from changeling.model.json_text import SIZE_LIMIT

CHUNK_SIZE = 4 * 1024 * 1024
"""Measured: 1 MB to 4 MB are quickest, smaller and larger ones up to a third slower."""

__all__ = ["Block", "Oversized", "RawRecord", "blocks", "csv_rows", "detect_framing", "json_values"]

_BLANKS = b" \t\r\n\xef\xbb\xbf"


def detect_framing(stream: Readable, framing: Framing) -> tuple[Readable, JsonValues | CsvRows]:
    """The framing of a file that may be JSON or CSV, by its first character, and the stream to continue with."""
    if not isinstance(framing, JsonOrCsv):
        return stream, framing
    head = b""
    while not head.lstrip(_BLANKS) and (more := stream.read(CHUNK_SIZE)):
        head += more
    is_json = head.lstrip(_BLANKS)[:1] in (b"{", b"[")
    return _Rejoined(head, stream), framing.json if is_json else framing.csv


class _Rejoined:
    """A stream whose first bytes were read already."""

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
    """The records of a stream in blocks, each a binary Arrow array (where that is quick) or a list."""
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
) -> Iterator[RawRecord]:
    """The raw bytes of each JSON value at the top level, in any layout; see `JsonSplitter` for the rules.

    With `arrays`, the items of an array at the top level are the values (of each array, where there are several).
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
) -> Iterator[RawRecord]:
    """The raw rows of CSV that are not empty, without line ends; see `row_blocks` for the rules."""
    return _single(blocks(stream, CsvRows(delimiter, quote, escape), chunk_size=chunk_size, limit=limit))


def _single(found: Iterable[Block]) -> Iterator[RawRecord]:
    for block in found:
        yield from block if isinstance(block, list) else block.to_pylist()
