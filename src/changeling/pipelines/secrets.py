"""What in a pipeline file is a secret: passwords, and what looks like one. An address, a path or a name is none."""

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

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
