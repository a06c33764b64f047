"""JSON lines cut at once: where every line of a text is one value, numpy finds the ends and Arrow takes the bytes."""

import re

import numpy as np
import pyarrow as pa

from changeling.files.spans import cut, cut_lines, line_bounds

_OPENING = np.zeros(256, bool)
_OPENING[list(b"{[")] = True
_BESIDE = np.zeros(256, bool)
_BESIDE[list(b"{[ \t\r")] = True
_BEHIND_ANY = re.compile(rb"[}\]][ \t\r]*[{\[]")
_BEHIND_OBJECT = re.compile(rb"\}[ \t\r]*[{\[]")


def is_straight(line: bytes, arrays: bool) -> bool:
    """Whether a line is taken as one record without looking inside.

    It starts with a bracket and ends with the one that closes it, and no closing bracket in it is followed by an opening
    one (which in JSON tells two values; in a string it tells nothing, and the scanner will see to it). The line behind it
    must start with an opening bracket, or there must be none: in JSON, a closing bracket is followed by an opening one
    between two values only. So lines that are values are cut rightly, and lines that are broken are cut alone.
    """
    last = line[-2:-1] if line.endswith(b"\r") else line[-1:]
    first = line[:1]
    if not (first == b"{" and last == b"}") and (arrays or not (first == b"[" and last == b"]")):
        return False
    return (_BEHIND_OBJECT if arrays else _BEHIND_ANY).search(line) is None


def straight_end(data: bytes, start: int, stop: int) -> int:
    """Where the lines of `data[start:stop]` end that can be cut: behind a line break whose next byte is known. 0 for none."""
    return data.rfind(b"\n", start, min(stop, len(data) - 1)) + 1


def cut_straight(data: bytes, start: int, end: int, arrays: bool, limit: int) -> pa.Array | None:
    """The lines of `data[start:end]` as an array, where all of them are straight (see `is_straight`); else None."""
    if end < len(data) and data[end] not in b"{[":
        return None
    text = np.frombuffer(data, np.uint8)[start:end]
    starts, stops, ends = line_bounds(text)
    if (ends - starts).max() > limit:
        return None
    first = text[starts]
    if not ((first == ord("{")) if arrays else _OPENING[first]).all():
        return None
    if (text[stops - 1] != first + 2).any() or _has_two_values(data, start, end, text, arrays):
        return None
    return cut_lines(data, start, end, ends) if (stops == ends).all() else cut(data, start, end, starts, stops)


def _has_two_values(data: bytes, start: int, end: int, text: np.ndarray, arrays: bool) -> bool:
    closing = np.flatnonzero(text == ord("}"))
    if not arrays:
        closing = np.concatenate([closing, np.flatnonzero(text == ord("]"))])
    # The text ends with a line break, so each bracket has a byte behind it.
    if not _BESIDE[text[closing + 1]].any():
        return False
    return (_BEHIND_OBJECT if arrays else _BEHIND_ANY).search(data, start, end) is not None
