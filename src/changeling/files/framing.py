"""Splits a byte stream into records: JSON values, or rows of CSV.

No byte is lost: all that is neither blank nor a separator becomes part of a record, for the decoder to reject if need be.
Files of any size are split in bounded memory. A record over `limit` is given as `Oversized`.
"""

from collections.abc import Iterator

from changeling.files.csv_split import row_blocks
from changeling.files.json_split import JsonSplitter
from changeling.files.raw_records import Block, Oversized, RawRecord, Readable
from changeling.formats.framing import CsvRows, Framing, JsonOrCsv, JsonValues
from changeling.model.json_text import SIZE_LIMIT

CHUNK_SIZE = 4 * 1024 * 1024
"""Measured: 1 MB to 4 MB are quickest, smaller and larger ones up to a third slower."""

__all__ = ["Block", "Oversized", "RawRecord", "blocks", "detect_framing"]

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
    """The raw records of a stream in blocks, each a binary Arrow array (where that is quick) or a list.

    `JsonSplitter` has the rules for JSON, `row_blocks` those for CSV.
    """
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
