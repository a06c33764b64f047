"""What dialects write in a way of their own: numbers that the replica stores otherwise, and the user who made a change."""

from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changeling.model import json_text
from changeling.model.canonical import text_of
from changeling.model.json_text import quote
from changeling.replicas.shape import Shape


class Spelling(NamedTuple):
    """How the values of one column are spelled."""

    write: Callable[[pa.Array], pa.Array]
    """From a column of canonical forms, null where rows have none."""
    type: str | None = None
    """What the dialect takes them for then; None for the type of the column."""


def spellings(form: str, shape: Shape) -> dict[str, Spelling]:
    """The columns of a shape whose numbers a dialect spells in its own way, by id."""
    found = {}
    for column in shape.columns:
        if column.kind.kind != "decimal":
            continue
        if form == "xtdb" and column.id.startswith("+"):
            # No schema declares it: documents had numbers there, whereas they have their decimals as texts.
            found[column.id] = Spelling(_bare, "json")
        elif form in ("ydb-json", "ydb-debezium") and column.kind.precision is None:
            found[column.id] = Spelling(_dynumber, "string")
        elif form.startswith("ydb-"):
            found[column.id] = Spelling(_shortest)
    return found


def _bare(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, '^"(.*)"$', r"\1")


def _shortest(texts: pa.Array) -> pa.Array:
    """Without the zeros that only the scale of its column adds, as YDB prints decimals."""
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, r'(\.[0-9]*?)0+"$', r'\1"'), r'\."$', '"')


def _dynumber(texts: pa.Array) -> pa.Array:
    """`.3321e1`, as YDB prints a DyNumber: all digits behind the point, and the power of ten."""
    return pa.array(
        [text if text in (None, b"null") else _with_exponent(text) for text in texts.to_pylist()], pa.binary()
    )


def _with_exponent(raw: bytes) -> bytes:
    sign, digits, exponent = Decimal(text_of(raw)).as_tuple()
    if not isinstance(exponent, int):
        return raw
    text = "".join(map(str, digits)).lstrip("0")
    power = len(text) + exponent
    text = text.rstrip("0")
    return quote(f"{'-' if sign else ''}.{text}e{power}" if text else "0")


def user_of(encoding: str, meta: str | None) -> str | None:
    """The user that a record named; None where it named none."""
    if meta is None:
        return None
    members = json_text.members(meta)
    found = None
    if encoding == "ydb-json":
        found = members.get("user")
    elif encoding == "ydb-debezium" and "payload" in members:
        source = json_text.members(members["payload"]).get("source", b"{}")
        found = json_text.members(source).get("user") if source[:1] == b"{" else None
    return None if found is None or found[:1] != b'"' else json_text.string(found)


def with_user(form: str, value: bytes, user: str) -> bytes:
    """A record that names its user, as YDB writes it in each of its forms."""
    members = json_text.members(value)
    if form == "ydb-json":
        members["user"] = quote(user)
    elif form == "ydb-dynamodb":
        members["userIdentity"] = quote({"type": "User", "principalId": user})
    else:
        payload = json_text.members(members["payload"])
        source = json_text.members(payload["source"])
        payload["source"] = json_text.join([*source.items(), ("user", quote(user))])
        members["payload"] = json_text.join(payload.items())
    return json_text.join(members.items())
