"""Cuts many JSON values out of a text at once with numpy: plain lines, and values in any layout.

The results are those of the scanner; cutting stops before the first value that is not plainly complete.
"""

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from changeling.files.raw_records import cut, cut_lines, line_bounds

_OPENING = np.zeros(256, bool)
_OPENING[list(b"{[")] = True
_SECOND_VALUE = np.zeros(256, bool)
_SECOND_VALUE[list(b"{[ \t\r")] = True
_VALUE_AFTER_ANY = re.compile(rb"[}\]][ \t\r]*[{\[]")
_VALUE_AFTER_OBJECT = re.compile(rb"\}[ \t\r]*[{\[]")
_MAX_BLANKS = 64
_MAX_DEPTH = 30_000
_IS_BLANK = np.zeros(256, bool)
_IS_BLANK[list(b" \t\r\n")] = True
_CASE = np.uint8(0x20)  # Set in the braces, not in the square brackets: with it, both kinds are one.


def is_plain_line(line: bytes, arrays: bool) -> bool:
    """Whether a line is taken as one record without looking inside.

    It starts with a bracket and ends with the one that closes it, and no closing bracket in it is followed by an opening
    one (in JSON that means two values; inside a string it means nothing, and the scanner decides). The next line must
    start with an opening bracket, or there must be none: in JSON, a closing bracket is followed by an opening one only
    between two values. So lines that are values are cut correctly, and broken lines are cut on their own.
    """
    last = line[-2:-1] if line.endswith(b"\r") else line[-1:]
    first = line[:1]
    if not (first == b"{" and last == b"}") and (arrays or not (first == b"[" and last == b"]")):
        return False
    return (_VALUE_AFTER_OBJECT if arrays else _VALUE_AFTER_ANY).search(line) is None


def plain_lines_end(data: bytes, start: int, stop: int) -> int:
    """Where the lines of `data[start:stop]` that can be cut end: after a line break whose next byte is known. 0 for none."""
    return data.rfind(b"\n", start, min(stop, len(data) - 1)) + 1


def cut_plain_lines(data: bytes, start: int, end: int, arrays: bool, limit: int) -> pa.Array | None:
    """The lines of `data[start:end]` as an array if all of them are plain (see `is_plain_line`), else None."""
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
    # The text ends with a line break, so a byte follows each bracket.
    if not _SECOND_VALUE[text[closing + 1]].any():
        return False
    return (_VALUE_AFTER_OBJECT if arrays else _VALUE_AFTER_ANY).search(data, start, end) is not None


@dataclass(frozen=True, slots=True)
class Cut:
    """Consecutive values, where the last of them ends, and the last line start between two (-1 for none)."""

    values: pa.Array
    end: int
    line_start: int


def cut_values(data: bytes, start: int, end: int, *, in_array: bool, objects_only: bool, limit: int) -> Cut | None:
    """The values of `data[start:end]`, which begins with an opening bracket; None if there are none.

    Each value taken is followed by blanks, one comma if `in_array`, and an opening bracket: the last one is left.
    """
    text = np.frombuffer(data, np.uint8)[start:end]
    inside, stop = _strings(text)
    folded = text | _CASE
    brackets = np.flatnonzero((folded == ord("{")) | (folded == ord("}")))
    brackets = brackets[(inside[brackets] == 0) & (brackets < stop)]
    depths = np.cumsum(np.where(folded[brackets] == ord("{"), 1, -1), dtype=np.int32)
    stray = np.flatnonzero(depths < 0)
    if len(stray):
        brackets, depths = brackets[: stray[0]], depths[: stray[0]]
    lasts = np.flatnonzero(depths == 0)
    lasts = lasts[lasts + 1 < len(brackets)]
    if not len(lasts) or depths.max() > _MAX_DEPTH:
        return None
    starts = brackets[np.concatenate([[0], lasts[:-1] + 1])]
    stops = brackets[lasts] + 1
    fits = stops - starts <= limit
    if objects_only:
        fits &= text[starts] == ord("{")
    good, broken_lines = _gaps(text, stops, brackets[lasts + 1], in_array)
    count = _leading(fits & good)
    count = count and int(np.searchsorted(stops[:count], _misplaced(text, brackets, depths, int(lasts[count - 1]) + 1)))
    if not count:
        return None
    line_starts = np.flatnonzero(broken_lines[: count - 1])
    line_start = int(line_starts[-1]) if len(line_starts) else -1
    return Cut(
        cut(data, start, end, starts[:count], stops[:count]),
        start + int(stops[count - 1]),
        -1 if line_start < 0 else start + int(starts[line_start + 1]),
    )


def _leading(good: np.ndarray) -> int:
    return len(good) if good.all() else int(np.argmin(good))


def _strings(text: np.ndarray) -> tuple[np.ndarray, int]:
    """Which bytes are inside strings, and up to which offset that is certain."""
    quotes = text == ord('"')
    stop = len(text)
    escaped = np.flatnonzero(quotes[1:] & (text[:-1] == ord("\\"))) + 1
    if len(escaped):
        slashes = np.flatnonzero(text == ord("\\"))
        runs = slashes[np.diff(slashes, prepend=-2) != 1]
        escaped = escaped[(escaped - runs[np.searchsorted(runs, escaped) - 1]) % 2 == 1]
        quotes[escaped] = False
    # Counted in bytes: it overflows, and stays right in the lowest bit.
    inside = np.cumsum(quotes, dtype=np.uint8) & np.uint8(1)
    for places, wrong in ((escaped, 0), (np.flatnonzero(text == ord("\n")), 1)):
        misread = places[inside[places] == wrong]
        if len(misread):
            stop = min(stop, int(misread[0]))
    return inside, stop


def _gaps(text: np.ndarray, stops: np.ndarray, nexts: np.ndarray, in_array: bool) -> tuple[np.ndarray, np.ndarray]:
    """Whether a separator follows each value, and whether that contains a line break."""
    lengths = nexts - stops
    good = lengths <= _MAX_BLANKS
    commas = np.zeros(len(stops), np.int8)
    breaks = np.zeros(len(stops), bool)
    for offset in range(int(lengths[good].max(initial=0))):
        which = np.flatnonzero(good & (lengths > offset))
        byte = text[stops[which] + offset]
        commas[which] += byte == ord(",")
        breaks[which] |= byte == ord("\n")
        good[which] &= _IS_BLANK[byte] | (byte == ord(","))
    return good & (commas == (1 if in_array else 0)), breaks


def _misplaced(text: np.ndarray, brackets: np.ndarray, depths: np.ndarray, count: int) -> int:
    """Where the first bracket is that closes another kind, or opens where no value is allowed.

    All of the first `count` are closed among themselves.
    """
    brackets, depths = brackets[:count], depths[:count]
    kinds = text[brackets]
    opening = (kinds | _CASE) == ord("{")
    # On each level, brackets open and close alternately: sorted by level, two neighbours are a pair.
    levels = (depths - opening).astype(np.int16)
    order = np.argsort(levels, kind="stable")
    first, second = order[0::2], order[1::2]
    wrong = brackets[second[kinds[second] != kinds[first] + 2]]
    worst = int(wrong.min()) if len(wrong) else len(text)

    inner = np.flatnonzero(opening & (levels > 0))
    before = brackets[inner] - 1
    blank = np.flatnonzero(_IS_BLANK[text[before]])
    while len(blank):
        before[blank] -= 1
        blank = blank[_IS_BLANK[text[before[blank]]]]
    byte = text[before]
    wrong = brackets[inner[(byte != ord(":")) & (byte != ord("[")) & (byte != ord(","))]]
    worst = min(worst, int(wrong.min())) if len(wrong) else worst

    listed = inner[byte == ord(",")]
    if len(listed):
        keys = levels[order].astype(np.int64) * count + order
        parents = order[np.searchsorted(keys, (levels[listed].astype(np.int64) - 1) * count + listed) - 1]
        wrong = brackets[listed[kinds[parents] != ord("[")]]
        worst = min(worst, int(wrong.min())) if len(wrong) else worst
    return worst
