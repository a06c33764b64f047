"""Rows of CSV into columns: those of one number of fields, whose fields are quoted where they must be, and nowhere else."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.csv_rows import RowStyle
from changeling.envelope.shapes import require
from changeling.envelope.text_columns import Bytes, Mask, Places, content_of, cut, every


def fields_of(rows: pa.Array, style: RowStyle) -> list[pa.Array]:
    """The fields of each row, NULL as null; raises `ShapeMismatch` where rows are not as the first one, or need a closer look."""
    count = len(rows)
    require(np.full(count, style.is_plain))
    bounds, content = content_of(rows)
    quotes, delimiters = (np.flatnonzero(content == ord(letter)) for letter in (style.quote, style.delimiter))
    breaks = np.flatnonzero((content == ord("\n")) | (content == ord("\r")))
    inside, breaks_inside = (_are_inside(places, quotes, bounds) for places in (delimiters, breaks))
    between = delimiters[~inside]
    numbers = np.bincount(_row_of(between, bounds), minlength=count)
    plain = numbers == numbers[0]
    plain[_row_of(breaks[~breaks_inside], bounds)] = False
    if not numbers[0] and style.null_text:
        # An empty line is not an empty text, which would be quoted.
        plain &= np.diff(bounds) > 0
    require(plain)
    between = between.reshape(count, -1)
    starts: Places = np.column_stack((bounds[:-1], between + 1))
    stops: Places = np.column_stack((between, bounds[1:]))
    special = np.concatenate((delimiters[inside], breaks))
    quoted, doubled, right = _quoted(content, starts, stops, quotes, special, style)
    require(np.logical_and.reduce(right, axis=1))
    lengths = np.ones((*starts.shape, 4), np.int64)
    # A quote, the content, a quote, a delimiter.
    lengths[:, :, 0] = lengths[:, :, 2] = quoted
    lengths[:, :, 1] = stops - starts - 2 * lengths[:, :, 0]
    step = 4 * starts.shape[1] - 1
    pieces = cut(rows, lengths.reshape(count, -1)[:, :step])
    found = []
    for place in range(starts.shape[1]):
        field = every(pieces, 4 * place + 1, step).cast(pa.string())
        if doubled[:, place].any():
            field = pc.replace_substring(field, style.quote * 2, style.quote)
        null = pc.and_(pc.equal(field, style.null_text), pa.array(~quoted[:, place]))
        found.append(pc.if_else(null, None, field) if pc.any(null).as_py() else field)
    return found


def _row_of(places: Places, bounds: npt.NDArray[np.int32]) -> Places:
    return np.searchsorted(bounds, places, side="right") - 1


def _are_inside(places: Places, quotes: Places, bounds: npt.NDArray[np.int32]) -> Mask:
    """Which of these bytes are inside of quotes."""
    before = np.searchsorted(quotes, places) - np.searchsorted(quotes, bounds[_row_of(places, bounds)])
    found: Mask = before % 2 == 1
    return found


def _quoted(
    content: Bytes, starts: Places, stops: Places, quotes: Places, special: Places, style: RowStyle
) -> tuple[Mask, Mask, Mask]:
    """Which fields are quoted, which of them contain quotes, and which are spelled as they would be printed."""
    of_field = np.searchsorted(starts.ravel(), quotes, side="right") - 1
    numbers = np.bincount(of_field, minlength=starts.size)
    quoted = numbers > 0
    at, end = starts.ravel()[quoted], stops.ravel()[quoted]
    right = np.ones(starts.size, np.bool_)
    right[quoted] = (content[at] == ord(style.quote)) & (content[end - 1] == ord(style.quote))
    right &= numbers % 2 == 0
    # Between the first and the last one of a field, they come in pairs.
    place = np.arange(len(quotes)) - (np.cumsum(numbers) - numbers)[of_field]
    opens = np.flatnonzero((place % 2 == 1) & (place < numbers[of_field] - 1))
    right[of_field[opens[quotes[opens + 1] != quotes[opens] + 1]]] = False
    needed = numbers > 2
    needed[np.searchsorted(starts.ravel(), special, side="right") - 1] = True
    needed[quoted] |= _are(content, at + 1, end - 1, style.null_text.encode())
    shape = starts.shape
    return quoted.reshape(shape), (numbers > 2).reshape(shape), (right & (needed | ~quoted)).reshape(shape)


def _are(content: Bytes, starts: Places, stops: Places, text: bytes) -> Mask:
    """Which pieces of a content are this text."""
    found: Mask = stops - starts == len(text)
    pieces = content[starts[found][:, None] + np.arange(len(text))]
    found[found] = (pieces == np.frombuffer(text, np.uint8)).all(axis=1)
    return found
