"""Scans JSON that arrives in parts: `Scan` follows one value to its end, `Walk` moves from one record to the next."""

import re
from enum import Enum

from changeling.files.window import Window

# Possessive, so that text of any length is matched in one pass and in constant memory.
_BODY_TEXT = rb'[^"\\\n]*+(?:\\.[^"\\\n]*+)*+'
STRING = b'"' + _BODY_TEXT + b'"'
"""A JSON string. No raw line break is allowed in one, so a line always starts outside of strings."""
_BODY = re.compile(_BODY_TEXT)
_PASS = re.compile(rb'[^"{}\[\]]*+(?:' + STRING + rb'[^"{}\[\]]*+)*+')

_QUOTE = ord('"')
_OPEN_OBJECT, _OPEN_ARRAY = b"{["
_COLON = ord(":")
_BLANK = b" \t\r\n"
_BLANKS = re.compile(rb"[ \t\r\n]*+")


class Verdict(Enum):
    """What is known about the value so far."""

    MORE = "its end is not in the text yet"
    DONE = "it ends here"
    BROKEN = "nothing that follows can make it JSON"


class Scan:
    """The state between two parts: the open brackets, whether a string is open, and the last byte that was not blank.

    A value is broken if it has a raw line break inside a string, a bracket that closes another kind, or an object or array
    where none is allowed (after a value without a comma, or as the name of a member). The last of these reveals a truncated
    line: the line after it starts a value where none is allowed. Everything else is left to the decoder.
    """

    __slots__ = ("_last", "_stack", "_string", "limit")

    def __init__(self, limit: int) -> None:
        self._stack = bytearray()
        self._string = False
        self._last = _COLON
        self.limit = limit
        """More open brackets than this count as broken, so that the state stays bounded, too."""

    def advance(self, data: bytes, start: int, stop: int) -> tuple[int, Verdict]:
        """Continues in `data[start:stop]`; returns how far it got. The very first byte must be the opening bracket."""
        stack, position = self._stack, start
        while True:
            if self._string:
                position = _BODY.match(data, position, stop).end()  # type: ignore[union-attr]  # matches anywhere
                rest = data[position : min(position + 2, stop)]
                if rest in (b"", b"\\"):
                    return position, Verdict.MORE
                if rest[0] != _QUOTE:
                    return position, Verdict.BROKEN
                position += 1
                self._string, self._last = False, _QUOTE
            passed = _PASS.match(data, position, stop).end()  # type: ignore[union-attr]  # matches anywhere
            if passed == stop:
                self._last = self._before(data, position, passed)
                return passed, Verdict.MORE
            byte = data[passed]
            if byte == _QUOTE:
                self._string = True
            elif byte in (_OPEN_OBJECT, _OPEN_ARRAY):
                last = self._before(data, position, passed)
                if stack and last != _COLON and (stack[-1] == _OPEN_OBJECT or last not in b"[,"):
                    return passed, Verdict.BROKEN
                stack.append(byte)
                if len(stack) > self.limit:
                    return passed, Verdict.BROKEN
                self._last = byte
            else:
                if not stack or stack.pop() != byte - 2:
                    return passed, Verdict.BROKEN
                if not stack:
                    return passed + 1, Verdict.DONE
                self._last = byte
            position = passed + 1

    def _before(self, data: bytes, start: int, stop: int) -> int:
        while stop > start:
            stop -= 1
            if data[stop] not in _BLANK:
                return data[stop]
        return self._last


class Walk:
    """The state between two records of a window: on which line, inside an array or not; `JsonSplitter` states the rules."""

    def __init__(self, window: Window, arrays: bool) -> None:
        self.window = window
        self._arrays = arrays
        self.in_array = False
        self.awaits_item = False
        """The array has been opened, and nothing in it has been seen yet."""
        self.array_began_with_object = False
        """An object followed the array's bracket on the same line."""
        self.unclosed = 0
        """How many arrays were truncated."""
        self.comma_allowed = False
        self.comma_due = False
        self.first_on_line = True
        self.indent = 0
        """The indentation of the last line that a record began on."""

    @property
    def place(self) -> int:
        """Bytes since the beginning of the stream."""
        return self.window.base + self.window.at

    @property
    def at_line_start(self) -> bool:
        """At the top level, at the first byte of a line."""
        return not self.in_array and self.first_on_line and self.indent == 0

    def begin_record(self) -> None:
        """Notes that a record starts here."""
        if self.awaits_item:
            first = self.window.data[self.window.at]
            self.array_began_with_object = first == ord("{") and not self.first_on_line
            self.awaits_item = False
        self.comma_allowed = self.comma_due = True

    def end_record(self) -> None:
        """Notes that a record was taken."""
        self.first_on_line = False

    def pass_lines(self, end: int) -> None:
        """Notes that complete lines up to an offset were taken."""
        self.window.pass_to(end)
        self.comma_allowed = False

    def pass_values(self, end: int, indent: int | None) -> None:
        """Notes that values up to an offset were taken; `indent` is that of the last line that one began on, if one did."""
        if indent is not None:
            self.indent = indent
        self.window.pass_to(end)
        self.begin_record()
        self.end_record()

    def break_record(self) -> None:
        """Notes that the record is broken: no comma has to follow it."""
        self.comma_due = False

    def reach_record(self) -> bool:
        """Skips what separates records; False at the end."""
        window = self.window
        while self._skip_blanks():
            byte = window.data[window.at : window.at + 1]
            if byte == b"," and self.comma_allowed:
                self.comma_allowed = self.comma_due = False
            elif self.in_array and byte == b"]":
                self._leave_array()
                self.comma_allowed = True
            elif self.in_array and self._ends_truncated_array(byte):
                self.unclosed += 1
                self._leave_array()
                continue
            elif byte == b"[" and self._arrays and not self.in_array:
                self.in_array = self.awaits_item = True
                self.comma_allowed = self.comma_due = False
            else:
                return True
            window.pass_to(window.at + 1)
            self.first_on_line = False
        return False

    def _ends_truncated_array(self, byte: bytes) -> bool:
        if not self.first_on_line or self.indent:
            return False
        return (self.comma_due and byte in (b"{", b"[")) or (
            byte == b"[" and self.array_began_with_object and not self.awaits_item
        )

    def _leave_array(self) -> None:
        self.in_array = self.awaits_item = self.comma_due = self.comma_allowed = False

    def _skip_blanks(self) -> bool:
        window = self.window
        while True:
            end = _BLANKS.match(window.data, window.at).end()  # type: ignore[union-attr]  # matches anywhere
            newline = window.data.rfind(b"\n", window.at, end)
            if newline >= 0:
                self.first_on_line, self.indent = True, end - newline - 1
            elif self.first_on_line:
                self.indent += end - window.at
            window.pass_to(end)
            if end < len(window.data):
                return True
            if not window.fill():
                return False
