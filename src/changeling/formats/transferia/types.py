"""Transferia's values, both ways: how Go's JSON prints the columns of each source.

Dates and times are timestamps with an offset, also where the column has none: then only the local time counts. Numbers
of any precision are plain JSON numbers, bytes are Base64, durations are nanoseconds or PostgreSQL's text.
"""

import re

from changeling.formats import time_spans
from changeling.formats.type_table import TypeTable
from changeling.model import json_text
from changeling.model.json_text import quote

_MOMENT = re.compile(r"(\d{4}-\d{2}-\d{2})([T ]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?)(?:Z|[+-]\d{2}:?\d{2})?")
_DAY = re.compile(rb'"\d{4}-\d{2}-\d{2}"')
_WALL = re.compile(rb'"\d{4}-\d{2}-\d{2}T[^"+Z]*"')
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def _read_date(raw: bytes) -> bytes:
    match = _wall(raw)
    return quote(match[1]) if match and not match[2].strip("T 0:.") else raw


def _read_timestamp(raw: bytes) -> bytes:
    match = _wall(raw)
    return quote(f"{match[1]}{match[2]}") if match else raw


def _wall(raw: bytes) -> re.Match[str] | None:
    return _MOMENT.fullmatch(json_text.string(raw)) if raw[:1] == b'"' else None


def _write_date(raw: bytes) -> bytes:
    return raw[:-1] + b'T00:00:00Z"' if _DAY.fullmatch(raw) else raw


def _write_timestamp(raw: bytes) -> bytes:
    return raw[:-1] + b'Z"' if _WALL.fullmatch(raw) else raw


def _write_decimal(raw: bytes) -> bytes:
    text = json_text.string(raw)
    return text.encode() if _NUMBER.fullmatch(text) else raw


TYPES = TypeTable(
    read={
        "date": _read_date,
        "timestamp": _read_timestamp,
        "duration": time_spans.from_count(time_spans.NANOSECOND),
        "interval": time_spans.from_words,
    },
    write={
        "decimal": _write_decimal,
        "date": _write_date,
        "timestamp": _write_timestamp,
        "duration": time_spans.to_count(time_spans.NANOSECOND, bits=64),
        "interval": time_spans.to_words(),
    },
)
