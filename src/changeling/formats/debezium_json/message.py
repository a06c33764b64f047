"""A message split into wrapper, envelope and key, and assembled again from what was kept of it."""

import base64
from collections.abc import Set
from typing import NamedTuple

import msgspec

from changeling.envelope.cells import Cell, Cells
from changeling.model import json_text
from changeling.model.change import Record
from changeling.model.json_text import quote

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

Members = dict[str, bytes]
Headers = tuple[tuple[str, bytes | None], ...]

_PAIR = ("key", "value")
_BINARY = (
    "this is Avro or another binary form in Confluent's framing (first byte 0x00), and only JSON is read:"
    " set the connector's converter to org.apache.kafka.connect.json.JsonConverter"
)


class Message(NamedTuple):
    """The parts of a record.

    `wrapper` is set if the envelope was in a `payload`, `pair` if key and value were in one object: it has their names in
    order.
    """

    envelope: dict[str, Cell] | None
    wrapper: dict[str, Cell] | None
    key: Cell
    pair: tuple[str, ...] = ()
    headers: Headers = ()


def members(text: str | bytes) -> Members:
    """The members of an object, each value as its original bytes."""
    return {name: bytes(value) for name, value in _members(text).items()}


def names_of(text: str | bytes) -> Set[str]:
    """The names of an object's members."""
    return _members(text).keys()


def take_apart(cells: Cells, record: Cell) -> Message:
    """The parts of a record; one that is not JSON is rejected."""
    value, key, headers = record.value, record.key, record.headers
    if value is None:
        return Message(None, None, key, headers=headers)
    cells.expect(~cells.starts(value, b"\0"), _BINARY)
    found = cells.members(value)
    if "op" in found:
        return Message(found, None, key, headers=headers)
    if found.keys() == set(_PAIR) and cells.branch(cells.starts(found["value"], b"{")):
        cells.alone()
        inner = take_apart(cells, Record(found["value"]))
        return inner._replace(key=None if found["key"] == b"null" else found["key"], pair=tuple(found))
    if "payload" not in found:
        return Message(found, None, key, headers=headers)
    payload = cells.value(found, "payload")
    envelope = cells.members(payload, "payload") if cells.only(cells.present(payload)) else None
    return Message(envelope, found, key, headers=headers)


def key_columns(cells: Cells, key: Cell) -> tuple[Cell, Cell]:
    """The columns of a message key, an object, and its schema part; no columns where the key is not an object."""
    if key is None or not cells.branch(cells.starts(key, b"{")):
        return None, None
    try:
        names = set(cells.names(key))
    except msgspec.DecodeError:
        return None, None
    if "payload" not in names or not names <= {"schema", "payload"}:
        cells.only(~(cells.starts(key, b'{"payload":') | cells.starts(key, b'{"schema":')))
        return key, None
    found = cells.members(key)
    return (found["payload"] if cells.only(cells.starts(found["payload"], b"{")) else None), found.get("schema")


def remembered(cells: Cells, message: Message, canonical_key: Cell) -> list[Cell]:
    """The members of `meta` with the headers, the wrapper and the message key, each with a comma in front."""
    meta: list[Cell] = []
    if message.headers:
        meta.append(b',"headers":%b' % quote([_header(*pair) for pair in message.headers]))
    if message.wrapper is not None:
        meta += [b',"wrapper":', cells.shell(message.wrapper, ("payload",))]
    key = message.key
    if key is not None and cells.any(differs := ~cells.equal(key, canonical_key)):
        is_json = cells.many or _is_json(key)
        noted = cells.joined(b',"key":', key) if is_json else b',"key_text":%b' % quote(key.decode(errors="replace"))
        meta.append(cells.where(differs, noted, b""))
    if message.pair:
        meta.append(b',"pair":true' if message.pair == _PAIR else b',"pair":%b' % quote(message.pair))
    return meta


def _is_json(text: bytes) -> bool:
    try:
        json_text.compact(text)
    except ValueError:
        return False
    return True


def _header(name: str, value: bytes | None) -> list[object]:
    try:
        return [name, None if value is None else value.decode()]
    except UnicodeDecodeError:
        return [name, {"base64": base64.b64encode(value or b"").decode()}]


def headers_of(meta: Members) -> Headers:
    """The headers that a message had."""
    if "headers" not in meta:
        return ()
    found = msgspec.json.decode(meta["headers"], type=list[tuple[str, str | dict[str, str] | None]])
    return tuple((name, _header_bytes(value)) for name, value in found)


def _header_bytes(value: str | dict[str, str] | None) -> bytes | None:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return None if value is None else value.encode()


def put_together(cells: Cells, envelope: Cell, meta: dict[str, Cell], canonical_key: Cell) -> tuple[Cell, Cell]:
    """The value and the key of the message that this envelope came in."""
    if "wrapper" in meta:
        envelope = cells.filled_shell(cells.members(meta["wrapper"]), {"payload": envelope})
    key = meta.get("key", canonical_key)
    if "key_text" in meta:
        key = json_text.string(meta["key_text"]).encode()
    if "pair" in meta:
        names = _PAIR if meta["pair"] == b"true" else map(json_text.string, json_text.items(meta["pair"]))
        return json_text.join((name, key or b"null" if name == "key" else envelope) for name in names), key
    return envelope, key
