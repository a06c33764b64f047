"""The statements of YDB's own tests as the records that a changefeed in mode UPDATES has of them."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(r"""@@.*?@@|"[^"]*"|'[^']*'|`[^`]*`|[(),;=]|[^\s(),;="'`@]+""")
_DIVISIONS = {"0.0/0.0": "nan", "1.0/0.0": "inf", "-1.0/0.0": "-inf"}
Row = dict[str, Any]


def rows_of(statement: str) -> Iterator[tuple[str, Row]]:
    """What a statement does to each row: `update` or `erase`, and the columns that it names."""
    tokens = _TOKEN.findall(statement)[::-1]
    kind = tokens.pop()
    _skip(tokens, {"UPSERT": "INTO", "DELETE": "FROM"}[kind])
    tokens.pop()
    if kind == "DELETE":
        _skip(tokens, "WHERE")
        name = tokens.pop()
        _skip(tokens, "=")
        yield "erase", {name: _value(tokens)}
        return
    names = _parenthesised(tokens, tokens.pop)
    _skip(tokens, "VALUES")
    while True:
        yield "update", dict(zip(names, _parenthesised(tokens, lambda: _value(tokens)), strict=True))
        if tokens.pop() == ";":
            return


def _skip(tokens: list[str], expected: str) -> None:
    found = tokens.pop()
    assert found == expected, (found, expected)


def _parenthesised(tokens: list[str], part: Any) -> list[Any]:
    _skip(tokens, "(")
    found = [part()]
    while tokens.pop() == ",":
        found.append(part())
    return found


def _value(tokens: list[str]) -> Any:
    token = tokens.pop()
    if tokens[-1] != "(":
        return _literal(token)
    _skip(tokens, "(")
    inner = _value(tokens)
    if token == "CAST":
        _skip(tokens, "AS")
        token = tokens.pop()
        if tokens[-1] == "(":
            _parenthesised(tokens, tokens.pop)
    _skip(tokens, ")")
    if token in ("Json", "JsonDocument"):
        return json.loads(inner)
    return base64.b64encode(inner.encode()).decode() if token == "String" else inner


def _literal(token: str) -> Any:
    if token.startswith("@@"):
        return token[2:-2]
    if token[0] in "\"'":
        return token[1:-1]
    return _DIVISIONS[token] if token in _DIVISIONS else json.loads(token.removesuffix("f"))
