"""Where a reader of JSON text stands: on which line, inside an array or not, and what may come between two records."""

import re

from changeling.files.window import Window

_BLANK = re.compile(rb"[ \t\r\n]*+")


class Walk:
    """The state between two records of a window; `JsonSplitter` tells the rules."""

    def __init__(self, window: Window, arrays: bool) -> None:
        self.window = window
        self._arrays = arrays
        self.in_array = False
        self.awaits_item = False
        """The array has been opened, and nothing in it was seen yet."""
        self.array_began_with_object = False
        """An object stood behind the array's bracket on the same line."""
        self.unclosed = 0
        """How many arrays were cut short."""
        self.comma_allowed = False
        self.comma_due = False
        self.first_on_line = True
        self.indent = 0
        """How deep the last line that a record began on is indented."""

    @property
    def place(self) -> int:
        """Bytes since the begin of the stream."""
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

    def reach_record(self) -> bool:
        """Passes what stands between records; False at the end."""
        window = self.window
        while self._pass_blanks():
            byte = window.data[window.at : window.at + 1]
            if byte == b"," and self.comma_allowed:
                self.comma_allowed = self.comma_due = False
            elif self.in_array and byte == b"]":
                self._leave_array()
                self.comma_allowed = True
            elif self.in_array and self._starts_anew(byte):
                self.unclosed += 1
                self._leave_array()
                continue
            elif byte == b"[" and self._arrays and not self.in_array:
                self.in_array = self.awaits_item = True
                self.comma_allowed = self.comma_due = False
            else:
                return True
            window.at += 1
            self.first_on_line = False
        return False

    def _starts_anew(self, byte: bytes) -> bool:
        if not self.first_on_line or self.indent:
            return False
        return (self.comma_due and byte in (b"{", b"[")) or (
            byte == b"[" and self.array_began_with_object and not self.awaits_item
        )

    def _leave_array(self) -> None:
        self.in_array = self.awaits_item = self.comma_due = self.comma_allowed = False

    def _pass_blanks(self) -> bool:
        window = self.window
        while True:
            end = _BLANK.match(window.data, window.at).end()  # type: ignore[union-attr]  # matches anywhere
            newline = window.data.rfind(b"\n", window.at, end)
            if newline >= 0:
                self.first_on_line, self.indent = True, end - newline - 1
            elif self.first_on_line:
                self.indent += end - window.at
            window.at = end
            if end < len(window.data):
                return True
            if not window.fill():
                return False
