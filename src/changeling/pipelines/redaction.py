"""Removes secrets from texts, in every form in which programs print them."""

import base64
import functools
import json
import re
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus

MASK = "***"
_SHORT = 3
"""A value of up to this many characters may be part of any text: it is masked only as a separate word."""


@functools.lru_cache(maxsize=16)
def redactor(secrets: tuple[str, ...]) -> Callable[[str], str]:
    """A function that masks these values, and their quoted, escaped and Base64 forms."""
    values = {part for value in secrets for part in (value, value.strip()) if part}
    long = {form for value in values if len(value) > _SHORT for form in _forms(value)}
    short = {value for value in values if len(value) <= _SHORT}
    patterns = [re.escape(form) for form in sorted(long, key=len, reverse=True)]
    patterns += [rf"(?<!\w){re.escape(value)}(?!\w)" for value in sorted(short, key=len, reverse=True)]
    if not patterns:
        return lambda text: text
    masked = re.compile("|".join(patterns))
    return lambda text: masked.sub(MASK, text)


def _forms(value: str) -> Iterator[str]:
    yield value
    for quoted in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield quoted
        yield re.sub("%..", lambda match: match[0].lower(), quoted)
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    raw = value.encode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(raw).decode()
        for before in range(3):
            # Inside of a longer text the bytes begin at any of three offsets, and the outer letters depend on their neighbours.
            letters = encode(b"\0" * before + raw).decode().rstrip("=")
            end = (before + len(raw)) * 8 // 6
            yield letters[(before * 8 + 5) // 6 : end]
