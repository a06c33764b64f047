"""Splits text into rows of CSV, whose quoted fields may contain line breaks."""

import re
from collections.abc import Iterator

import numpy as np

from changeling.files.raw_records import Block, RawRecord, Readable, cut, line_bounds
from changeling.files.window import Window

_BLOCK_ROWS = 50_000
_SPAN = 8 * 1024 * 1024
_LINE_END = b"\r\n"
_NEWLINE = re.compile(rb"\n")


def row_blocks(
    stream: Readable, *, delimiter: bytes, quote: bytes, escape: bytes | None, chunk_size: int, limit: int
) -> Iterator[Block]:
    """The rows of CSV that are not empty, raw, without their ends.

    A field that begins with a quote continues, over line breaks, to the quote that closes it (a doubled quote is one in the
    text). A delimiter or the end of the line must follow. If something else follows, or the row is over the limit, the quote
    is a stray one, and its line is a record of its own. The same holds for a quote that is never closed.
    Other quotes are plain text, and so is a byte after `escape`.
    """
    window = Window(stream, chunk_size, limit, blanks=_LINE_END)
    rows = _Rows(window, delimiter, quote, escape)
    while window.left or window.fill():
        escaped = escape is not None and window.data.find(escape, window.at) >= 0
        block = None if escaped else _lines(window, delimiter, quote)
        if block is not None:
            if len(block):
                yield block
        elif records := rows.take_some():
            yield records


def _lines(window: Window, delimiter: bytes, quote: bytes) -> Block | None:
    """All complete rows of the window at once; None if there are none, or some need a closer look."""
    data, start = window.data, window.at
    end = data.rfind(b"\n", start, start + _SPAN) + 1
    if end <= start:
        return None
    text = np.frombuffer(data, np.uint8)[start:end]
    starts, stops, ends = line_bounds(text)
    if data.find(quote, start, end) >= 0:
        between = _between_rows(text, ends, ord(delimiter), ord(quote))
        if between is None:
            return None
        starts = np.concatenate([[0], ends[between][:-1] + 1])
        stops, end = stops[between], start + int(ends[between][-1]) + 1
    lengths = stops - starts
    if lengths.max() > window.limit:
        return None
    window.pass_to(end)
    kept = lengths > 0
    return cut(data, start, end, starts[kept], stops[kept])


def _between_rows(text: np.ndarray, ends: np.ndarray, delimiter: int, quote: int) -> np.ndarray | None:
    """Which line ends are outside of quotes; None if a quote is where none is expected, or no row ends."""
    quotes = text == quote
    inside = np.cumsum(quotes, dtype=np.uint8) & np.uint8(1)
    between = np.flatnonzero(inside[ends] == 0)
    if not len(between):
        return None
    places = np.flatnonzero(quotes[: ends[between[-1]]])
    before, after = text[places[0::2] - 1], text[places[1::2] + 1]
    before_fits = (before == delimiter) | (before == ord("\n")) | (before == quote) | (places[0::2] == 0)
    after_fits = (after == delimiter) | (after == ord("\n")) | (after == quote)
    returns = places[1::2][after == ord("\r")] + 2
    return (
        between if before_fits.all() and after_fits.sum() + (text[returns] == ord("\n")).sum() == len(after) else None
    )


def _line(window: Window) -> RawRecord | None:
    record = window.take_until(_NEWLINE)
    _pass_line_end(window)
    return record or None


def _pass_line_end(window: Window) -> None:
    if window.data[window.at : window.at + 1] == b"\n":
        window.pass_to(window.at + 1)


class _Rows:
    def __init__(self, window: Window, delimiter: bytes, quote: bytes, escape: bytes | None) -> None:
        self._window = window
        d, q = re.escape(delimiter), re.escape(quote)
        e = b"" if escape is None or escape == quote else re.escape(escape)
        escaped = rb"|" + e + rb"[\s\S]" if e else b""
        plain = rb"(?:[^" + d + e + rb"\n]++" + escaped + rb")*+"
        inner = rb"(?:[^" + q + e + rb"]++|" + q + q + escaped + rb")*+"
        field = rb"(?:" + q + inner + q + rb"(?=" + d + rb"|\r?\n)|(?!" + q + rb")" + plain + rb")"
        self._fields = re.compile(rb"(?:" + field + d + rb")*+" + field + rb"?+(?:\r(?=\n))?+")
        cut_escape = rb"|" + e + rb"\Z" if e else b""
        self._quoted = re.compile(q + inner + rb"(?:" + q + rb"\r?" + cut_escape + rb")?+")
        self._quote = quote

    def take_some(self) -> list[RawRecord]:
        """The rows that end in the window; only one if more had to be read for it: the rest may be cut at once."""
        window = self._window
        base = window.base
        records: list[RawRecord] = []
        while window.left and len(records) < _BLOCK_ROWS and (window.base == base or not records):
            end = self._row_end()
            if end is None and window.left <= window.limit:
                if records:
                    break
                if window.fill():
                    continue
                end = self._last_row_end()
            record = _line(window) if end is None or end < 0 else window.take(end)
            _pass_line_end(window)
            if record:
                records.append(record)
        return records

    def _last_row_end(self) -> int:
        """The end of the text, or -1: a quote that is never closed is a stray one, and must not swallow rows."""
        rest = self._window.data[self._window.at :] + b"\n"
        complete = self._fields.match(rest).end() + 1 == len(rest)  # type: ignore[union-attr]  # matches anywhere
        return len(self._window.data) if complete or b"\n" not in rest[:-1] else -1

    def _row_end(self) -> int | None:
        """Where the next row ends; None if more must be read to know, -1 if it is not a row."""
        data = self._window.data
        end = self._fields.match(data, self._window.at).end()  # type: ignore[union-attr]  # matches anywhere
        if data.startswith(b"\n", end):
            return end
        if not data.startswith(self._quote, end):
            return None
        quoted = self._quoted.match(data, end)
        return None if quoted is None or quoted.end() == len(data) else -1
