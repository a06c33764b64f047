"""A message split into wrapper, envelope and key, and assembled again from what was kept of it."""

import base64
import functools
from collections.abc import Set
from itertools import compress

import msgspec

from changeling.model import json_text
from changeling.model.change import Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

Members = dict[str, bytes]
Headers = tuple[tuple[str, bytes | None], ...]

_PAIR = ("key", "value")


class Message(msgspec.Struct, frozen=True, gc=False):
    """The parts of one record.

    `wrapper` is set if the envelope was in a `payload`, `pair` if key and value were in one object: it has their names in
    order.
    """

    envelope: Members | None
    wrapper: Members | None
    key: bytes | None
    pair: tuple[str, ...] = ()
    headers: Headers = ()


def members(text: str | bytes) -> Members:
    """The members of an object, each value as its original bytes."""
    return {name: bytes(value) for name, value in _members(text).items()}


_payload = json_text.named("payload", members)


def names_of(text: str | bytes) -> Set[str]:
    """The names of an object's members."""
    return _members(text).keys()


def take_apart(record: Record) -> Message:
    """The parts of a record; raises `Rejected` if it is not JSON."""
    value = record.value
    if value is None:
        return Message(None, None, record.key, headers=record.headers)
    if value[:1] == b"\0":
        raise Rejected(
            "this is Avro or another binary form in Confluent's framing (first byte 0x00), and only JSON is read:"
            " set the connector's converter to org.apache.kafka.connect.json.JsonConverter"
        )
    found = members(value)
    if "op" in found:
        return Message(found, None, record.key, headers=record.headers)
    if found.keys() == set(_PAIR) and found["value"][:1] == b"{":
        inner = take_apart(Record(found["value"]))
        return msgspec.structs.replace(inner, key=None if found["key"] == b"null" else found["key"], pair=tuple(found))
    if "payload" in found:
        payload = found["payload"]
        return Message(None if payload == b"null" else _payload(payload), found, record.key, headers=record.headers)
    return Message(found, None, record.key, headers=record.headers)


def key_columns(key: bytes | None) -> tuple[Members | None, bytes | None]:
    """The columns of a message key and its schema part; no columns where the key is not an object."""
    if key is None or key.lstrip()[:1] != b"{":
        return None, None
    try:
        found = members(key)
    except msgspec.DecodeError:
        return None, None
    payload = found.get("payload")
    if payload is not None and found.keys() <= {"schema", "payload"}:
        return (members(payload) if payload[:1] == b"{" else None), found.get("schema")
    return found, None


def shell(parts: Members, taken: tuple[str, ...]) -> bytes:
    """These members without the values that the change itself contains."""
    template, kept = _template(tuple(parts), taken)
    return template % tuple(compress(parts.values(), kept))


@functools.lru_cache(maxsize=1024)
def _template(names: tuple[str, ...], taken: tuple[str, ...]) -> tuple[bytes, list[bool]]:
    """Cached, since records repeat few orders of members: only the values remain to be filled in."""
    kept = [name not in taken for name in names]
    heads = [quote(name).replace(b"%", b"%%") for name in names]
    body = b",".join(head + (b":%b" if keep else b":null") for head, keep in zip(heads, kept, strict=True))
    return b"{%b}" % body, kept


def remembered(message: Message, canonical_key: str | bytes | None) -> bytes:
    """The members of `meta` with the wrapper, the message key and the headers, each with a comma in front."""
    meta = b"" if not message.headers else b',"headers":%b' % quote([_header(*pair) for pair in message.headers])
    if message.wrapper is not None:
        meta += b',"wrapper":%b' % shell(message.wrapper, ("payload",))
    if message.key is not None and message.key != canonical_key:
        try:
            json_text.compact(message.key)
        except ValueError:
            meta += b',"key_text":%b' % quote(message.key.decode(errors="replace"))
        else:
            meta += b',"key":%b' % message.key
    if not message.pair:
        return meta
    return meta + (b',"pair":true' if message.pair == _PAIR else b',"pair":%b' % quote(message.pair))


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


def put_together(envelope: bytes, meta: Members, canonical_key: bytes | None) -> tuple[bytes, bytes | None]:
    """The value and the key of the message that this envelope came in."""
    if "wrapper" in meta:
        envelope = shell_filled(meta["wrapper"], {"payload": envelope})
    key = meta.get("key", canonical_key)
    if "key_text" in meta:
        key = json_text.string(meta["key_text"]).encode()
    if "pair" in meta:
        names = _PAIR if meta["pair"] == b"true" else map(json_text.string, json_text.items(meta["pair"]))
        return json_text.join((name, key or b"null" if name == "key" else envelope) for name in names), key
    return envelope, key


def shell_filled(text: bytes, filling: dict[str, bytes]) -> bytes:
    """The members of a shell with these values in them."""
    return json_text.join((name, filling.get(name, value)) for name, value in members(text).items())
