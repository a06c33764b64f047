"""Spans of time as settings have them: `10s`, `30d`."""

import re

from changeling.model.errors import UsageError

_SPAN = re.compile(r"([0-9]{1,12}) *(ms|s|m|h|d)")
_MILLIS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def is_span(text: str) -> bool:
    """Whether a text is a span."""
    return _SPAN.fullmatch(text) is not None


def span_millis(text: str) -> int:
    """The milliseconds of a span such as `10s`; raises `UsageError` where it is not one."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a span of time: write a number and ms, s, m, h or d, as in 10s")
    return int(match[1]) * _MILLIS[match[2]]
