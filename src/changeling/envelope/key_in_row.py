"""Keys that records carry twice: on their own, and among the columns of their row."""

from collections.abc import Mapping

from changeling.model import json_text
from changeling.model.canonical import Convert
from changeling.model.errors import Rejected


def spelled(value: bytes) -> bytes:
    """One spelling for equal values; one that is text in one place and a number in the other is the same."""
    plain = json_text.canonical(value)
    return json_text.canonical_number(plain[1:-1]) if plain[:1] == b'"' else plain


def check_key(key: Mapping[str, bytes], row: bytes, canonical: Convert = spelled) -> None:
    """Raises `Rejected` where a row has another value in a column of its key: it is not known which row is meant."""
    start = b"{%b" % b",".join([json_text.head(name) + value for name, value in key.items()])
    if row.startswith((start + b",", start + b"}")):
        return
    columns = json_text.members(row)
    for name, value in key.items():
        found = columns.get(name, value)
        if found != value and canonical(found) != canonical(value):
            raise Rejected(
                f"the key says that {name} is {_shown(value)}, and the row says that it is {_shown(found)}: "
                "they are not of the same row"
            )


def _shown(value: bytes) -> str:
    return (value if len(value) <= 60 else value[:57] + b"...").decode(errors="replace")
