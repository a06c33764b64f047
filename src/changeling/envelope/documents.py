"""Documents that records contain as text: whether they are JSON objects, and not nested too deep."""

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.shapes import OddOnes, decoded
from changeling.envelope.text_columns import Mask, byte_lengths
from changeling.model import json_text
from changeling.model.errors import Rejected


class _Any(msgspec.Struct, gc=False):
    """Any object."""


_objects = msgspec.json.Decoder(_Any)


def are_documents(texts: pa.Array) -> Mask:
    """Whether each text is an object that is not nested too deep; null is none, which is fine."""
    given = pc.fill_null(texts, "{}")
    try:
        decoded(given, _objects)
    except OddOnes as error:
        return error.plain
    return are_shallow(given)


def are_shallow(texts: pa.Array) -> Mask:
    """Whether each text (of valid JSON) is not nested deeper than anything sane."""
    found = np.ones(len(texts), np.bool_)
    # A text shorter than two brackets a level cannot be nested too deep: most need no look.
    for place in np.flatnonzero(byte_lengths(texts) > 2 * json_text.DEPTH_LIMIT):
        text = texts[int(place)].as_py()
        try:
            json_text.check_depth(text if isinstance(text, bytes) else text.encode())
        except Rejected:
            found[place] = False
    return found
