"""A change as one line of JSON, as `decode` and `history` print it."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from changeling.model import json_text, times
from changeling.model.json_text import quote


def lines(batch: pa.RecordBatch) -> list[bytes]:
    """One JSON object a change, images and keys embedded with every digit that they have."""
    columns = [batch.column(name).to_pylist() for name in _PRINTERS]
    printers = list(_PRINTERS.values())
    heads = [b"%b:" % quote(name) for name in _PRINTERS]
    return [
        b"{%b}" % b",".join(head + print_(value) for head, print_, value in zip(heads, printers, row, strict=True))
        for row in zip(*columns, strict=True)
    ]


def _embedded(text: str | None) -> bytes:
    if text is None:
        return b"null"
    return json_text.compact(text) if "\n" in text or "\r" in text else text.encode()


def _time(nanos: int | None) -> bytes:
    return b"null" if nanos is None else quote(times.to_text(nanos))


def _transaction(row: dict[str, Any] | None) -> bytes:
    return quote(row and {name: row[name] for name in ("id", "order", "total")})


def _origin(row: dict[str, Any] | None) -> bytes:
    return quote({name: value for name, value in (row or {}).items() if value is not None})


_PRINTERS: dict[str, Callable[[Any], bytes]] = {
    "source": quote,
    "table": quote,
    "op": quote,
    "key": _embedded,
    "before": _embedded,
    "after": _embedded,
    "before_image": quote,
    "after_image": quote,
    "encoding": quote,
    "position": quote,
    "commit_time": _time,
    "transaction": _transaction,
    "schema_id": quote,
    "origin": _origin,
    "meta": _embedded,
}
