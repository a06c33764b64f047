"""The first records of an input, to look at before it is read."""

import io
import sys
from collections.abc import Sequence

from changeling.files import paths, reading
from changeling.files.gunzip import Input
from changeling.files.paths import STDIN, Place
from changeling.formats.framing import CsvRows, JsonOrCsv, JsonValues
from changeling.model import layout
from changeling.model.change import Record

_MOST = 100


def first_records(places: Sequence[Place], carrier: reading.Carrier, style: CsvRows) -> list[Record]:
    """Up to a hundred records from the start of an input, JSON or rows of CSV, of which nothing is consumed.

    Of standard input only what one read gives is seen; its last record may be cut off, and is left out unless it is the only one.
    """
    framing = JsonOrCsv(JsonValues(), style)
    for batch in reading.read(places, framing=framing, carrier=carrier, batch_rows=_MOST, opened=_opened):
        if batch.records.num_rows:
            found = layout.records(batch.records)
            return found[:-1] if places[0].path == STDIN and 1 < len(found) < _MOST else found
    return []


def _opened(place: Place) -> Input:
    if place.path != STDIN:
        return paths.open_input(place)
    stdin = sys.stdin.buffer
    return Input(io.BytesIO(stdin.peek() if isinstance(stdin, io.BufferedReader) else b""))
