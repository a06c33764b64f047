"""Secrets of a pipeline file: what is one, and how texts and errors are shown without them. An address, a path or a name is none."""

import base64
import functools
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus, unquote, urlsplit

from changeling.model.errors import ChangelingError

if TYPE_CHECKING:
    from changeling.pipelines.loading import LoadedPipeline

_ANYWHERE = ("password", "passwd", "passphrase", "secret", "token", "credential", "apikey")
_WORDS = {"pass", "pwd", "pw", "pin", "login", "jaas", "salt"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_NAMED = re.compile(
    r"""(?i)(?<![a-z])(?:password|passwd|pwd|secret|token)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;&"']+))"""
)
"""As libpq, the query of a URL and a JAAS configuration have them."""
_TOKEN = re.compile(r"(?=.*[0-9])(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9+/_=~-]{20,}|[0-9a-f]{32,}|eyJ[\w-]+\.[\w-]+\.[\w-]*")
"""Keys of clouds, digests, and signed tokens."""


def is_secret_name(name: str) -> bool:
    """Whether a setting or a variable of that name has a secret: `PG_PASSWORD`, `sasl.jaas.config`, `s3.access-key`."""
    words = [word.lower() for word in _WORD.findall(name)]
    return (
        any(part in name.lower() for part in _ANYWHERE)
        or not _WORDS.isdisjoint(words)
        or (len(words) > 1 and words[-1] == "key")
    )


def secrets_in(text: str) -> Iterator[str]:
    """The passwords in an address or a login, as they are written and as they are meant; or the text, where it looks like one."""
    stripped = text.strip()
    try:
        password = urlsplit(stripped).password
    except ValueError:
        password = None
    found = [password] if password else []
    found += [next(filter(None, match), "") for match in _NAMED.findall(stripped)]
    for secret in filter(None, found):
        yield from (secret, unquote(secret), re.sub(r"\\(.)", r"\1", secret))
    if not found and _TOKEN.fullmatch(stripped) and not stripped.startswith("/"):
        yield text


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


@contextmanager
def without_secrets(loaded: "LoadedPipeline") -> Iterator[None]:
    """Removes the secrets of a pipeline from errors; those of the system become `ChangelingError`."""
    try:
        yield
    except ChangelingError as error:
        raise type(error)(loaded.redacted(str(error))) from None
    except Exception as error:
        _check_spark(error)
        if not isinstance(error, OSError):
            raise
        message = ": ".join(str(part) for part in (error.filename, error.strerror or error) if part is not None)
        raise ChangelingError(loaded.redacted(message)) from None


def _check_spark(error: Exception) -> None:
    """Raises `ChangelingError` if the cause is that Spark's JVM has ended."""
    if "changeling.spark.gateway" in sys.modules:
        from changeling.spark.errors import check_spark

        check_spark(error)
