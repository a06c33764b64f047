"""Generated changes with hostile values: unicode, quotes, separators, huge numbers, null-like text, deep nesting."""

import base64
import json
from typing import Any

from hypothesis import strategies as st

from changeling.conformance.cases import MILLIS, SCHEMA, SHOP, TIME
from changeling.model.change import Change, Transaction
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position

LOOKALIKES = [
    "",
    "null",
    "NULL",
    "None",
    "true",
    "0",
    "nan",
    '"',
    "\\",
    ",",
    "\n",
    "\r\n",
    "\t",
    "'",
    "{}",
    "[]",
    "\x00",
    "\u2028",
    "é",
]
TEXT = st.one_of(st.sampled_from(LOOKALIKES), st.text(st.characters(codec="utf-8"), max_size=40))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=8,
)
DEEP = st.integers(1, 200).map(lambda depth: "[" * depth + "]" * depth)
DECIMAL = st.decimals(-(10**27), 10**27, places=10, allow_nan=False).map(lambda number: f"{number:f}")


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


VALUES: dict[str, st.SearchStrategy[str]] = {
    "flag": st.booleans().map(_text),
    "tiny": st.integers(-128, 127).map(_text),
    "count": st.integers(-(2**31), 2**31 - 1).map(_text),
    "big": st.integers(-(2**63), 2**63 - 1).map(_text),
    "huge": st.integers(0, 2**64 - 1).map(_text),
    "ratio": st.floats(allow_nan=False, allow_infinity=False, width=32).map(_text),
    "price": DECIMAL.map(_text),
    "name": TEXT.map(_text),
    "payload": st.binary(max_size=20).map(lambda raw: _text(base64.b64encode(raw).decode())),
    "day": st.dates().map(lambda day: _text(day.isoformat())),
    "at": st.integers(0, 4_000_000_000).map(lambda seconds: _text(_moment(seconds))),
    "took": st.integers(1, 59).map(lambda number: _text(f"PT{number}H{number}M{number}.5S")),
    "ref": st.uuids().map(lambda found: _text(str(found))),
    "doc": st.one_of(JSON.filter(lambda value: value is not None).map(_text), DEEP),
    "tags": st.lists(TEXT, max_size=3).map(_text),
}


def _moment(seconds: int) -> str:
    from changeling.model.times import to_text

    return to_text(seconds * 10**9 + 123_000_000)


def rows(names: list[str]) -> st.SearchStrategy[dict[str, str]]:
    """Rows of these columns, each NULL now and then."""
    return st.fixed_dictionaries({name: st.one_of(st.just("null"), VALUES[name]) for name in names})


def _object(row: dict[str, str], key: str | None) -> str:
    pairs = ([("_id", key)] if key is not None else []) + list(row.items())
    return "{" + ",".join(f"{_text(name)}:{value}" for name, value in pairs) + "}"


@st.composite
def changes(draw: st.DrawFn) -> Change:
    """A row change of the conformance table: any operation, images full, partial or missing, with or without places."""
    key = _text(draw(TEXT))
    op = draw(st.sampled_from([Operation.INSERT, Operation.UPDATE, Operation.UPSERT, Operation.DELETE, Operation.READ]))
    full = rows(list(VALUES))
    some = st.lists(st.sampled_from(list(VALUES)), unique=True, min_size=1).flatmap(rows)
    change = Change(op=op, table=SHOP, key=f'{{"_id":{key}}}', schema=SCHEMA.to_json())
    if op is not Operation.DELETE:
        partial = op in (Operation.UPDATE, Operation.UPSERT) and draw(st.booleans())
        change.after = _object(draw(some if partial else full), None if partial else key)
        change.after_image = Image.PARTIAL if partial else Image.FULL
    if op in (Operation.UPDATE, Operation.DELETE) and draw(st.booleans()):
        change.before, change.before_image = _object(draw(full), key), Image.FULL
    if draw(st.booleans()):
        number, order = draw(st.integers(0, 2**62)), draw(st.integers(0, 10**6))
        change.position = position(number, order)
        change.commit_time = TIME
        change.transaction = Transaction(str(number), order, number)
    elif draw(st.booleans()):
        change.position, change.commit_time = position(MILLIS, draw(st.integers(0, 2**64 - 1))), TIME
    return change
