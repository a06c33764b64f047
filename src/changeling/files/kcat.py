"""Kafka messages in the form that `kcat -J` prints and other tools accept: one JSON object a line."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import msgspec
import pyarrow as pa

from changeling.model import arrow_layouts, json_text
from changeling.model.change import Record
from changeling.model.errors import CannotCarry, Rejected

_Partition = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Envelope(msgspec.Struct, gc=False):
    """The members that matter; kcat also prints `tstype`, `ts` and `broker`, which have no place in a record."""

    topic: str | None = None
    partition: _Partition | None = None
    offset: _Offset | None = None
    headers: list[str | None] | None = None
    key: msgspec.Raw = msgspec.Raw(b"null")
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Message(msgspec.Struct, gc=False):
    """A record, and its partition and offset in Kafka."""

    record: Record
    partition: int | None
    offset: int | None


_decode = msgspec.json.Decoder(Envelope).decode
_STRING = msgspec.json.Decoder(str).decode


def parse(line: bytes) -> Message:
    """Reads one line; raises `Rejected` with the reason. An object that is not a message at all is a plain record.

    The payload is `payload` or `value`: a string is the bytes of the value, null is a tombstone, and anything else (kcat
    decodes Avro to JSON) is the value as it is. The same holds for `key`.
    """
    try:
        found = _decode(line)
        payload = found.value if found.payload is msgspec.UNSET else found.payload
        if found.topic is None and (found.partition is None or payload is msgspec.UNSET):
            return Message(Record(line), None, None)
        if payload is msgspec.UNSET:
            raise Rejected("not a message in the form of kcat -J: it has no payload")
        record = Record(_content(payload), _content(found.key), _pairs(found.headers or []), found.topic)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Rejected(f"not a message in the form of kcat -J: {error}") from None
    return Message(record, found.partition, found.offset)


def _content(text: msgspec.Raw) -> bytes | None:
    raw = bytes(text)
    if raw == b"null":
        return None
    return _STRING(raw).encode() if raw.startswith(b'"') else raw


def _pairs(flat: list[str | None]) -> tuple[tuple[str, bytes | None], ...]:
    names, values = flat[0::2], flat[1::2]
    if len(names) != len(values) or None in names:
        raise Rejected("not a message in the form of kcat -J: headers are not pairs of name and value")
    return tuple(
        (name or "", None if value is None else value.encode()) for name, value in zip(names, values, strict=True)
    )


class Printer:
    """Writes records as messages; offsets run from 0 in each topic."""

    def __init__(self) -> None:
        self._offsets: Counter[str | None] = Counter()

    def lines(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """One line a record, without line ends; raises `CannotCarry` for bytes that are not UTF-8."""
        for record in arrow_layouts.records(batch):
            yield self._line(record)

    def _line(self, record: Record) -> bytes:
        offset = self._offsets[record.topic]
        message: list[tuple[str, bytes]] = [
            ("topic", json_text.quote(record.topic)),
            ("partition", b"0"),
            ("offset", json_text.quote(offset)),
        ]
        if record.headers:
            flat = [
                item for name, value in record.headers for item in (json_text.quote(name), _quoted(value, "header"))
            ]
            message.append(("headers", json_text.join_array(flat)))
        message += [("key", _quoted(record.key, "key")), ("payload", _quoted(record.value, "value"))]
        self._offsets[record.topic] += 1
        return json_text.join(message)


def _quoted(content: bytes | None, what: str) -> bytes:
    try:
        return json_text.quote(None if content is None else content.decode())
    except UnicodeDecodeError:
        raise CannotCarry(
            "binary", f"a {what} is not UTF-8 text, and messages in the form of kcat -J hold text only"
        ) from None
