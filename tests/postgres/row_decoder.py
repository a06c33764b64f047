"""pgoutput read message by message and value by value: slow, and plain to see through."""

import base64
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from changeling.model import json_text
from changeling.model.change import Change, Transaction
from changeling.model.operation import Image, Operation
from changeling.model.position import encode
from changeling.postgres.literals import literal
from changeling.postgres.relation import Relation
from changeling.postgres.types import schema_of

Row = list[tuple[str, bytes]]
"""Kind and text of each column."""


class RowDecoder:
    """Gives the changes of a stream; `resolve` finds the relation of a description by its bytes."""

    def __init__(self, resolve: Callable[[bytes], Relation], start: int = 0, end: int = 2**63) -> None:
        self._resolve, self._start, self._end = resolve, start, end
        self._relations: dict[int, Relation] = {}
        self._found: list[Change] = []
        self._last: Change | None = None

    def __call__(self, messages: list[bytes]) -> list[Change]:
        self._found = []
        for message in messages:
            getattr(self, f"_{chr(message[0])}", lambda body: None)(message[1:])
        return self._found

    def _tell(self, op: Operation, relation: Relation | None = None, **parts: Any) -> None:
        self._ordinal += 1
        if not self._start <= self._lsn < self._end:
            return
        change = Change(
            op=op,
            position=encode(self._lsn, self._ordinal),
            commit_time=self._time,
            transaction=Transaction(str(self._xid), self._ordinal),
            **parts,
        )
        if relation is not None:
            change.table, change.schema = relation.table, schema_of(relation).to_json()
        self._found.append(change)
        self._last = change

    def _B(self, body: bytes) -> None:
        self._lsn, micros, self._xid = struct.unpack(">qqI", body)
        self._time, self._ordinal, self._last = (micros + 946_684_800_000_000) * 1000, 0, None

    def _C(self, body: bytes) -> None:
        if self._last is not None and self._last.transaction is not None:
            self._last.transaction = msgspec.structs.replace(self._last.transaction, complete=True)

    def _R(self, body: bytes) -> None:
        relation = self._resolve(body)
        self._relations[relation.oid] = relation

    def _I(self, body: bytes) -> None:
        relation, (_, new), _ = self._rows(body)
        self._tell(Operation.INSERT, relation, **_after(relation, new), key=_key(relation, new))

    def _U(self, body: bytes) -> None:
        relation, (kind, first), rest = self._rows(body)
        if kind == "N":
            self._tell(Operation.UPDATE, relation, **_after(relation, first), key=_key(relation, first))
            return
        new, _ = _row(rest[1:])
        for place, column in enumerate(relation.columns):
            if new[place][0] == "u" and (kind == "O" or column.name in relation.key):
                new[place] = first[place]
        self._tell(
            Operation.UPDATE,
            relation,
            **_before(relation, kind, first),
            **_after(relation, new),
            key=_key(relation, new),
        )

    def _D(self, body: bytes) -> None:
        relation, (kind, old), _ = self._rows(body)
        self._tell(Operation.DELETE, relation, **_before(relation, kind, old), key=_key(relation, old))

    def _T(self, body: bytes) -> None:
        count, flags = struct.unpack(">IB", body[:5])
        meta = {name: True for bit, name in ((1, "cascade"), (2, "restart_identity")) if flags & bit}
        for (oid,) in struct.iter_unpack(">I", body[5:]):
            text = msgspec.json.encode(meta).decode() if meta else None
            self._tell(Operation.TRUNCATE, self._relations[oid], meta=text)
        assert len(body) == 5 + 4 * count

    def _M(self, body: bytes) -> None:
        transactional, lsn = struct.unpack(">Bq", body[:9])
        prefix, rest = body[9:].split(b"\0", 1)
        content = rest[4:]
        meta = {"prefix": prefix.decode(), "content_base64": base64.b64encode(content).decode()}
        with suppress(UnicodeDecodeError):
            meta["content"] = content.decode()
        text = msgspec.json.encode(meta).decode()
        if transactional:
            self._tell(Operation.MESSAGE, meta=text)
        elif self._start <= lsn < self._end:
            self._found.append(Change(op=Operation.MESSAGE, position=encode(lsn, 0), meta=text))

    def _rows(self, body: bytes) -> tuple[Relation, tuple[str, Row], bytes]:
        relation = self._relations[struct.unpack(">I", body[:4])[0]]
        found, rest = _row(body[5:])
        return relation, (chr(body[4]), found), rest


def _row(data: bytes) -> tuple[Row, bytes]:
    (count,) = struct.unpack(">H", data[:2])
    data, found = data[2:], []
    for _ in range(count):
        kind, data = chr(data[0]), data[1:]
        text = b""
        if kind == "t":
            (length,) = struct.unpack(">I", data[:4])
            text, data = data[4 : 4 + length], data[4 + length :]
        found.append((kind, text))
    return found, data


def _members(relation: Relation, values: Row) -> dict[str, bytes]:
    return {
        column.name: b"null" if kind == "n" else literal(column.type)(text)
        for column, (kind, text) in zip(relation.columns, values, strict=True)
        if kind != "u"
    }


def _image(relation: Relation, values: Row) -> tuple[str, Image]:
    members = _members(relation, values)
    return json_text.join(members.items()).decode(), Image.FULL if len(members) == len(values) else Image.PARTIAL


def _after(relation: Relation, values: Row) -> dict[str, Any]:
    text, image = _image(relation, values)
    return {"after": text, "after_image": image}


def _before(relation: Relation, kind: str, values: Row) -> dict[str, Any]:
    if kind == "O":
        text, image = _image(relation, values)
        return {"before": text, "before_image": image}
    key = [(name, value) for name, value in _members(relation, values).items() if name in relation.key]
    return {"before": json_text.join(key).decode(), "before_image": Image.KEY}


def _key(relation: Relation, values: Row) -> str | None:
    members = _members(relation, values)
    if not relation.key or not members.keys() >= set(relation.key):
        return None
    return json_text.canonical_key((name, members[name]) for name in relation.key).decode()
