"""Changes into Debezium's events: native ones as they were, others in an envelope of our own connector."""

from collections.abc import Sequence

import msgspec

from changeling.formats.debezium_json import message
from changeling.formats.debezium_json.envelope import Placeholder
from changeling.formats.debezium_json.images import with_unavailable
from changeling.formats.debezium_json.marks import MarkWriter
from changeling.formats.debezium_json.options import DebeziumWrite
from changeling.formats.debezium_json.rows import RowWriter
from changeling.formats.debezium_json.source import kept_topic, server_name, topic_of
from changeling.formats.format import Encode, Outgoing
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.json_text import quote
from changeling.model.operation import ROW_OPERATIONS, Operation


class _Named(msgspec.Struct, gc=False):
    name: str | None = None


class _Envelope(msgspec.Struct, gc=False):
    source: _Named | None = None


_envelope = msgspec.json.Decoder(_Envelope).decode


def encoder(options: DebeziumWrite) -> Encode:
    """A function from one change to its messages."""
    placeholder = Placeholder(options.placeholder)
    rows, marks = RowWriter(options), MarkWriter(options)

    def encode(out: Outgoing) -> Sequence[Record]:
        change = out.change
        meta = message.members(_bytes(change.meta)) if out.native and change.meta else {}
        if "record" in meta or "envelope" in meta:
            return [_as_it_was(out, meta, placeholder, options)]
        if change.op in ROW_OPERATIONS or change.op is Operation.TRUNCATE:
            return rows.records(out)
        return marks.records(out, meta)

    return encode


def _as_it_was(out: Outgoing, meta: dict[str, bytes], placeholder: Placeholder, options: DebeziumWrite) -> Record:
    change = out.change
    own_key = None if change.key is None else _bytes(change.key)
    if "record" in meta:
        _, key = message.put_together(b"null", meta, own_key)
        return Record(meta["record"], key, message.headers_of(meta), kept_topic(change, meta, options))
    filling = {
        side: _image(change, side, meta, placeholder)
        for side in ("before", "after")
        if getattr(change, side) is not None and not (side == "after" and "derived" in meta)
    }
    if not options.keyed and own_key is not None:
        filling |= _key_in_value(out, own_key, meta)
    envelope = message.shell_filled(meta["envelope"], filling)
    value, key = message.put_together(envelope, meta, own_key)
    source = _envelope(envelope).source if options.name is None else None
    topic = topic_of(change.table, (source and source.name) or server_name(options))
    return Record(value, key, message.headers_of(meta), topic)


def _image(change: Change, side: str, meta: dict[str, bytes], form: Placeholder) -> bytes:
    image = _bytes(getattr(change, side))
    if (places := meta.get(f"unavailable_{side}")) is not None:
        image = with_unavailable(image, places, form)
    return quote(image.decode()) if f"text_{side}" in meta else image


def _key_in_value(out: Outgoing, key: bytes, meta: dict[str, bytes]) -> dict[str, bytes]:
    """What a record must show if only its message key, which is not kept, names the row."""
    change = out.change
    if "pair" in meta or change.before is not None or change.after is not None or change.op not in ROW_OPERATIONS:
        return {}
    if change.op is not Operation.DELETE:
        out.lose("keys-only", "only the message key names the row, and plain files have none; use --carrier kcat")
    if "before" not in message.members(meta["envelope"]):
        meta["envelope"] = json_text.join([("before", b"null"), *message.members(meta["envelope"]).items()])
    return {"before": key}


def _bytes(text: str | bytes | msgspec.Raw | None) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text or b"")
