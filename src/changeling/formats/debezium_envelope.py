"""What the dialects with Debezium's envelope share: its letters, and the parts of the message around it."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from changeling.envelope.cells import Cell, Cells, Members, as_bytes
from changeling.model import json_text
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Operation

IMAGES = ("before", "after")
OPERATIONS = {
    "c": Operation.INSERT,
    "u": Operation.UPDATE,
    "d": Operation.DELETE,
    "r": Operation.READ,
}
"""The operations on rows by their letters."""
LETTERS = {
    **{operation: letter for letter, operation in OPERATIONS.items()},
    Operation.UPSERT: "u",
    Operation.REPLACE: "u",
}
Headers = tuple[tuple[str, bytes | None], ...]
_op = json_text.named("op", msgspec.json.Decoder(str).decode)


def operation_by(letters: Mapping[str, Operation], owner: str) -> Callable[[bytes], Operation]:
    """A reader of `op`, which is one of these letters; the `owner` of the dialect is named where it is another."""
    *most, last = letters

    def operation(raw: bytes) -> Operation:
        letter = _op(raw)
        if letter not in letters:
            raise Rejected(f"unknown op {letter!r}: {owner} has {', '.join(most)} and {last}")
        return letters[letter]

    return operation


def transaction_block(cells: Cells, name: Cell, total: Cell, order: Cell) -> Cell:
    """The transaction of an event: its id as text, and the event's places in the log and in the transaction."""
    places = {"total_order": cells.int_json(total), "data_collection_order": cells.int_json(order)}
    return cells.json_object({"id": cells.quoted(name), **places})


def key_columns(cells: Cells, key: Cell) -> tuple[Cell, Cell]:
    """The columns of a message key, an object, and its schema part; no columns where the key is not an object."""
    if key is None or not cells.branch(cells.starts(key, b"{")):
        return None, None
    try:
        names = set(cells.names(key))
    except msgspec.DecodeError:
        return None, None
    if "payload" not in names or not names <= {"schema", "payload"}:
        cells.usually(~(cells.starts(key, b'{"payload":') | cells.starts(key, b'{"schema":')))
        return key, None
    found = cells.members(key)
    return (found["payload"] if cells.usually(cells.starts(found["payload"], b"{")) else None), found.get("schema")


def row_key(cells: Cells, row: Cell, columns: Cell, names: tuple[str, ...]) -> Cell:
    """The key of a row: from the columns of the message key, else from those that the user named."""
    if columns is not None:
        return cells.key_in_row(columns, row)
    if not names:
        return None
    found = cells.columns(cells.first(row, b"{}"), names)
    if not cells.usually(cells.all_present(found.values())):
        missing = ", ".join(name for name, value in found.items() if value is None)
        raise Rejected(f"no message key, and the row lacks the key columns {missing}")
    return cells.key(found)


def document_key(document: str | bytes | None, message_key: bytes | None) -> bytes:
    """The key of a document of XTDB: the record id in it, or else the message key."""
    columns = json_text.members(document or b"{}")
    raw = columns.get("_id", columns.get("xt/id"))
    if raw is None:
        if message_key is None:
            raise Rejected("no record id: neither `_id` nor `xt/id` in the document, and no message key")
        raw = quote(message_key.decode())
    return json_text.canonical_key([("_id", raw)])


def remembered(cells: Cells, record: Any, canonical_key: Cell, wrapper: Members | None = None) -> Members:
    """The members of `meta` that restore headers, what the envelope was in, and the message key, if that is not the canonical one."""
    meta: Members = {}
    if record.headers:
        meta["headers"] = quote([_header(*pair) for pair in record.headers])
    if wrapper is not None:
        meta["wrapper"] = cells.json_object(wrapper, ("payload",))
    key = record.key
    if key is not None and cells.any(differs := ~cells.equal(key, canonical_key)):
        # Of a group, objects that give the key of the row were read already.
        is_json = cells.starts(key, b"{") & cells.present(canonical_key)
        if not (cells.is_columnar and cells.all(is_json)):
            is_json = cells.holds(_is_json, key)
        meta["key"] = cells.where(differs & is_json, key, None)
        meta["key_text"] = cells.where(is_json, None, cells.each(_as_text, key))
    return meta


def _is_json(text: bytes | None) -> bool:
    try:
        json_text.compact(text or b"")
    except ValueError:
        return False
    return True


def _as_text(text: bytes | None) -> bytes | None:
    return None if text is None else quote(text.decode(errors="replace"))


class _Binary(msgspec.Struct):
    """The value of a header that is not text."""

    base64: bytes


def _header(name: str, value: bytes | None) -> tuple[str, str | _Binary | None]:
    try:
        return name, None if value is None else value.decode()
    except UnicodeDecodeError:
        return name, _Binary(value or b"")


_headers = msgspec.json.Decoder(list[tuple[str, str | _Binary | None]]).decode


def headers_of(meta: Members) -> Headers:
    """The headers that a message had."""
    return tuple(
        (name, value.base64 if isinstance(value, _Binary) else as_bytes(value))
        for name, value in _headers(meta.get("headers", b"[]"))
    )


def message_key(cells: Cells, meta: Members, canonical_key: Cell) -> Cell:
    """The key that a message had."""
    if "key_text" in meta:
        cells.one_by_one()
        return json_text.string(meta["key_text"]).encode()
    return meta.get("key", canonical_key)


def rewrapped(cells: Cells, envelope: Cell, meta: Members) -> Cell:
    """The envelope in the wrapper that it had."""
    return cells.refilled(cells.members(meta["wrapper"]), {"payload": envelope}) if "wrapper" in meta else envelope
