"""Follows one JSON object or array through text that arrives in parts, up to its end or to the proof that it is broken."""

import re
from enum import Enum

# Possessive, so that text of any length is passed once, and in constant memory.
_BODY_TEXT = rb'[^"\\\n]*+(?:\\.[^"\\\n]*+)*+'
STRING = b'"' + _BODY_TEXT + b'"'
"""A JSON string. No raw line break is allowed in one, so a line always starts outside of strings."""
_BODY = re.compile(_BODY_TEXT)
_PASS = re.compile(rb'[^"{}\[\]]*+(?:' + STRING + rb'[^"{}\[\]]*+)*+')

_QUOTE = ord('"')
_OPEN_OBJECT, _OPEN_ARRAY = b"{["
_COLON = ord(":")
_BLANK = b" \t\r\n"


class Verdict(Enum):
    """What is known about the value so far."""

    MORE = "its end is not in the text yet"
    DONE = "it ends here"
    BROKEN = "nothing that follows can make it JSON"


class Scan:
    """The state between two parts: the brackets that are open, whether a string is, and the last byte that was not blank.

    Broken is a value with a raw line break inside a string, with a bracket that closes another kind, or with an object or
    array where none can stand (behind a value without a comma, or as the name of a member). The last is what tells a line
    that was cut short: the line after it starts a value where none can stand. Everything else is left to the decoder.
    """

    __slots__ = ("_last", "_stack", "_string", "limit")

    def __init__(self, limit: int) -> None:
        self._stack = bytearray()
        self._string = False
        self._last = _COLON
        self.limit = limit
        """More open brackets than this are taken as broken, so that the state stays bounded, too."""

    def advance(self, data: bytes, start: int, stop: int) -> tuple[int, Verdict]:
        """Reads on in `data[start:stop]`; says how far it came. The first byte ever given must be the opening bracket."""
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
