"""Objects of JSON in columns: whether they are such, nested not too deep, and compact."""

import functools
import re

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.shapes import ShapeMismatch, decoded
from changeling.envelope.text_columns import Mask, byte_lengths, content_of
from changeling.model import json_text
from changeling.model.errors import Rejected


class _Any(msgspec.Struct, gc=False):
    """Any object."""


_objects = msgspec.json.Decoder(_Any)
_BLANK = ord(" ")


def are_objects(texts: pa.Array) -> Mask:
    """Whether each text is an object that is not nested too deep; null passes."""
    given = pc.fill_null(texts, "{}")
    try:
        decoded(given, _objects)
    except ShapeMismatch as error:
        return error.plain
    return are_shallow(given)


@functools.lru_cache(maxsize=1024)
def in_order(names: tuple[str, ...]) -> str:
    """A pattern of objects of plain values with exactly these members, in this order."""
    value = r'(?:"(?:[^"\\]|\\.)*"|[^"{\[\s,}]+)'
    members = r"\s*,\s*".join(rf"{re.escape(json_text.quote(name).decode())}\s*:\s*{value}" for name in names)
    return rf"^\{{\s*{members}\s*\}}$"


def are_shallow(texts: pa.Array) -> Mask:
    """Whether each text (of valid JSON) is not nested deeper than `DEPTH_LIMIT` levels."""
    found = np.ones(len(texts), np.bool_)
    # A text shorter than two brackets a level cannot be nested too deep: most need no look.
    for place in np.flatnonzero(byte_lengths(texts) > 2 * json_text.DEPTH_LIMIT):
        text = texts[int(place)].as_py()
        try:
            json_text.check_depth(text if isinstance(text, bytes) else text.encode())
        except Rejected:
            found[place] = False
    return found


def are_compact(texts: pa.Array) -> Mask:
    """Whether nothing stands between the members of each object (of valid JSON); a text that might not be counts as not compact."""
    bounds, content = content_of(texts)
    own = np.concatenate((np.zeros(2, np.uint8), content, np.zeros(2, np.uint8)))
    blanks = np.flatnonzero(content <= _BLANK) + 2
    found = np.ones(len(texts), np.bool_)
    if not len(blanks):
        return found
    earlier, before, after, later = own[blanks - 2], own[blanks - 1], own[blanks + 1], own[blanks + 2]
    outside = (before == ord(",")) & ((after == ord('"')) | (after <= _BLANK))
    outside |= (after == ord(",")) & ((later == ord('"')) | (later <= _BLANK))
    outside |= ((before == ord(":")) & (earlier == ord('"'))) | ((after == ord(":")) & (before == ord('"')))
    outside |= (before == ord("{")) | (after == ord("}")) | (after == ord("{")) | (before == ord("}"))
    odd = blanks[outside] - 2
    found[np.searchsorted(bounds, odd, side="right") - 1] = False
    return found
