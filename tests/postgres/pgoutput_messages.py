"""Messages of pgoutput as the server writes them, for tests that make up their own streams."""

import struct
from collections.abc import Sequence

from changeling.postgres.relation import Relation

UNCHANGED = object()
"""A value outside of the row that an update left alone."""
Value = str | None | object


def begin(lsn: int, micros: int, xid: int) -> bytes:
    return b"B" + struct.pack(">qqI", lsn, micros, xid)


def commit(lsn: int, micros: int) -> bytes:
    return b"C" + struct.pack(">Bqqq", 0, lsn, lsn + 8, micros)


def described(relation: Relation, identity: str = "d") -> bytes:
    schema, name = relation.table.schema or "", relation.table.name
    made = [b"R", struct.pack(">I", relation.oid), schema.encode() + b"\0", name.encode() + b"\0"]
    made.append(identity.encode() + struct.pack(">H", len(relation.columns)))
    for column in relation.columns:
        flagged = identity == "f" or (identity in "di" and column.name in relation.key)
        made.append(
            bytes([flagged]) + column.name.encode() + b"\0" + struct.pack(">Ii", column.type.oid, column.typmod)
        )
    return b"".join(made)


def row(values: Sequence[Value]) -> bytes:
    made = [struct.pack(">H", len(values))]
    for value in values:
        if value is None:
            made.append(b"n")
        elif value is UNCHANGED:
            made.append(b"u")
        else:
            text = str(value).encode()
            made.append(b"t" + struct.pack(">I", len(text)) + text)
    return b"".join(made)


def insert(oid: int, new: Sequence[Value]) -> bytes:
    return b"I" + struct.pack(">I", oid) + b"N" + row(new)


def update(oid: int, new: Sequence[Value], kind: str = "", old: Sequence[Value] = ()) -> bytes:
    before = kind.encode() + row(old) if kind else b""
    return b"U" + struct.pack(">I", oid) + before + b"N" + row(new)


def delete(oid: int, kind: str, old: Sequence[Value]) -> bytes:
    return b"D" + struct.pack(">I", oid) + kind.encode() + row(old)


def truncate(oids: Sequence[int], flags: int = 0) -> bytes:
    return b"T" + struct.pack(">IB", len(oids), flags) + b"".join(struct.pack(">I", oid) for oid in oids)


def logical(lsn: int, prefix: str, content: bytes, *, transactional: bool) -> bytes:
    head = b"M" + struct.pack(">Bq", transactional, lsn)
    return head + prefix.encode() + b"\0" + struct.pack(">I", len(content)) + content
