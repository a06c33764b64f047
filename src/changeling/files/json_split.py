"""Splits text into JSON values in any layout, and recovers from broken ones without losing their neighbours."""

import re
from collections.abc import Iterator
from functools import cache

import msgspec

from changeling.files.json_cut import cut_plain_lines, cut_values, is_plain_line, plain_lines_end
from changeling.files.json_scan import STRING, Scan, Verdict, Walk
from changeling.files.raw_records import HEAD, Block, RawRecord, Readable, oversized, size
from changeling.files.window import Window

_BLOCK_ROWS = 50_000
_MAX_FAILURES = 16
_SHORTEST_SPAN, _LONGEST_SPAN = 64 * 1024, 8 * 1024 * 1024
_NEWLINE = re.compile(rb"\n")
_ITEM = re.compile(rb'(?:[^"\[\]{},\n]++|' + STRING + rb")++|\}++|,++")
_skip_value = msgspec.json.Decoder(msgspec.Raw).decode


class JsonSplitter:
    """One pass over one stream.

    Records are separated by blanks, at most one comma after a record, and, with `arrays`, the brackets of arrays at the top
    level, whose items are the records. Everything else becomes part of a record, by these rules:

    1. A *plain* line (see `is_plain_line`) at the top level is one record.
    2. Otherwise an opening bracket begins a record that ends with the bracket that closes it, over any number of lines.
    3. If that is broken (see `Scan`) or the text ends first, the record ends before the next line that starts with an
       opening bracket, indented no deeper than the line that the record began on; reading continues there. A line that
       starts with `}, {` serves as well, and so does, in an array, one that starts with the array's closing bracket.
    4. Text that begins with no opening bracket is one record up to the end of its line; in an array, up to a bracket or comma.
    5. In an array, an unindented line that starts with an opening bracket where a comma is due, or with `[` if the array
       began with an object on its first line, shows that the array was truncated: the line is at the top level again.
    6. The bracket of an array that was truncated, there or by the end of the text, is a record of its own at the end: an
       incomplete file must not pass for a complete one.
    """

    def __init__(self, stream: Readable, *, arrays: bool, chunk_size: int, limit: int) -> None:
        self._window = Window(stream, chunk_size, limit, blanks=b" \t\r\n")
        self._arrays = arrays
        self._walk = Walk(self._window, arrays)
        self._span = _LONGEST_SPAN
        self._scan_until = 0
        self._failed_at, self._failures = -1, 0

    def blocks(self) -> Iterator[Block]:
        """All records, in blocks of some thousands; memory is bounded by the chunk size and the size limit."""
        while self._walk.reach_record():
            block = self._cut_block() if self._walk.place >= self._scan_until else None
            yield block or self._scanned_block()
        if unclosed := self._walk.unclosed + self._walk.in_array:
            yield [b"["] * unclosed

    def _cut_block(self) -> Block | None:
        """Many records at once, if that works; if not, the next attempt is on a shorter text."""
        window = self._window
        place = self._walk.place
        block = self._plain_lines_block() or self._structured_block()
        tried = min(place + self._span, window.base + len(window.data)) - place
        if (self._walk.place - place) * 8 > tried:
            self._span = min(self._span * 4, _LONGEST_SPAN)
        else:
            if self._span == _SHORTEST_SPAN:
                self._scan_until = place + tried
            self._span = max(self._span // 4, _SHORTEST_SPAN)
        return block

    def _plain_lines_block(self) -> Block | None:
        """The next lines, if all of them are plain."""
        window = self._window
        if not self._walk.at_line_start:
            return None
        while (end := plain_lines_end(window.data, window.at, window.at + self._span)) <= window.at:
            if window.left > min(window.limit, self._span) or not window.fill():
                return None
        block = cut_plain_lines(window.data, window.at, end, self._arrays, window.limit)
        if block is not None:
            self._walk.pass_lines(end)
        return block

    def _structured_block(self) -> Block | None:
        """The next values, up to one that is broken or incomplete."""
        window = self._window
        if self._walk.awaits_item or not window.data.startswith(b"{" if self._arrays else (b"{", b"["), window.at):
            return None
        found = cut_values(
            window.data,
            window.at,
            min(window.at + self._span, len(window.data)),
            in_array=self._walk.in_array,
            objects_only=self._arrays,
            limit=window.limit,
        )
        if found is None:
            return None
        indent = None
        if found.line_start >= 0:
            indent = found.line_start - window.data.rfind(b"\n", window.at, found.line_start) - 1
        self._walk.pass_values(found.end, indent)
        return found.values

    def _scanned_block(self) -> list[RawRecord]:
        """One record, and more where cutting many at once is not worth trying."""
        window, records = self._window, [self._take_record()]
        base = window.base
        while len(records) < _BLOCK_ROWS and window.base == base and self._walk.place < self._scan_until:
            if not self._walk.reach_record():
                break
            records.append(self._take_record())
        return records

    def _take_record(self) -> RawRecord:
        self._walk.begin_record()
        record = self._value() if self._window.data[self._window.at] in b"{[" else self._scrap()
        self._walk.end_record()
        return record

    def _value(self) -> RawRecord:
        window = self._window
        if self._walk.first_on_line:
            line = self._next_line()
            if line is not None:
                return line
        scan, offset = Scan(window.limit), 0
        stop = self._line_end() if self._failures > _MAX_FAILURES and self._walk.place < self._failed_at else None
        while True:
            end = len(window.data) if stop is None else window.at + stop
            position, verdict = scan.advance(window.data, window.at + offset, end)
            if verdict is Verdict.DONE:
                return window.take(position)
            if position - window.at > window.limit:
                return self._oversized(scan, position, verdict)
            if verdict is Verdict.BROKEN or stop is not None:
                return self._broken(position)
            offset = position - window.at
            if not window.fill():
                return self._broken(len(window.data))

    def _next_line(self) -> RawRecord | None:
        """The next line, if it is plain or, up to a comma, clearly one value."""
        window = self._window
        newline = window.find(_NEWLINE)
        end = len(window.data) if newline is None else newline.start()
        if end - window.at > window.limit:
            return None
        if end + 1 == len(window.data):
            size = end - window.at
            window.fill()
            end = window.at + size
        line = window.data[window.at : end]
        alone = window.data[end + 1 : end + 2] in (b"", b"{", b"[")
        if self._walk.at_line_start and alone and is_plain_line(line, self._arrays):
            return window.take(end)
        line = line.rstrip(b" \t\r").removesuffix(b",")
        if line.endswith((b"}", b"]")):
            try:
                _skip_value(line)
            except (msgspec.DecodeError, RecursionError):
                return None
            return window.take(window.at + len(line))
        return None

    def _line_end(self) -> int:
        newline = self._window.find(_NEWLINE)
        return self._window.left if newline is None else newline.start() - self._window.at

    def _broken(self, position: int) -> RawRecord:
        """Ends a broken record by rule 3.

        After repeated failures at one offset, a value must end on its own line, up to that offset: otherwise each of many
        lines could be followed to the same distant end.
        """
        place = self._window.base + position
        self._failures = self._failures + 1 if place <= self._failed_at else 0
        self._failed_at = max(self._failed_at, place)
        self._walk.break_record()
        return self._window.take_until(_resume(min(self._walk.indent, HEAD // 4), self._walk.in_array))

    def _oversized(self, scan: Scan, position: int, verdict: Verdict) -> RawRecord:
        """Follows a record over the limit without keeping it in memory; if it is broken, rule 3 applies from there on."""
        window = self._window
        head, length = window.data[window.at : window.at + HEAD], 0
        while True:
            length += position - window.at
            window.pass_to(position)
            if verdict is Verdict.BROKEN:
                return oversized(head, length + size(self._broken(position)))
            if verdict is Verdict.DONE:
                return oversized(head, length)
            if not window.fill():
                return oversized(head, length + size(window.take(len(window.data))))
            position, verdict = scan.advance(window.data, window.at, len(window.data))

    def _scrap(self) -> RawRecord:
        window = self._window
        if not self._walk.in_array:
            return window.take_until(_NEWLINE)
        while True:
            match = _ITEM.match(window.data, window.at)
            end = window.at if match is None else match.end()
            # A string may continue after what was read, up to the end of its line.
            open_end = end == len(window.data) or (window.data[end] in b'"' and window.data.find(b"\n", end) < 0)
            if not open_end or window.left > window.limit or not window.fill():
                return window.take_until(_NEWLINE) if match is None else window.take(end)


@cache
def _resume(indent: int, in_array: bool) -> re.Pattern[bytes]:
    blanks = rb"[ \t]{0,%d}" % indent
    starts = rb"\n(?=" + blanks + (rb"[{\[\]])" if in_array else rb"[{\[])")
    return re.compile(starts + rb"|(\n" + blanks + rb"[}\]])(?=[ \t]*,[ \t]*[{\[])")
