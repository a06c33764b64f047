"""Messages written as they were read: the shell of their envelope with the images put back into it."""

import functools

import msgspec

from changeling.envelope.cells import Absent, Cell, Cells, Part, as_bytes
from changeling.envelope.writing import RecordCells
from changeling.formats.debezium_json import message
from changeling.formats.debezium_json.envelope import Placeholder
from changeling.formats.debezium_json.images import with_unavailable
from changeling.formats.debezium_json.options import DebeziumWrite
from changeling.formats.debezium_json.source import kept_topic, server_name, topic_of
from changeling.formats.format import Outgoing
from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.json_text import quote
from changeling.model.operation import ROW_OPERATIONS, Operation
from changeling.model.table import TableName


class _Source(msgspec.Struct, gc=False):
    name: str | None = None


_SOURCE = Part("source", _Source)
_USUAL = {"envelope", "wrapper", "key"}
"""What is kept of most messages; others are rebuilt one at a time."""


def original_message(cells: Cells, out: Cell, meta: dict[str, Cell], options: DebeziumWrite) -> RecordCells:
    """The message of a change that was read from one."""
    if not (options.keyed and meta.keys() <= _USUAL):
        cells.alone()
    change = out.change
    headers = message.headers_of(meta)
    if "record" in meta:
        _, key = message.put_together(cells, b"null", meta, change.key)
        return RecordCells(meta["record"], key, kept_topic(change, meta, options), headers)
    filling = {"before": change.before, "after": change.after}
    if not meta.keys() <= _USUAL:
        filling = _odd_images(change, meta, Placeholder(options.placeholder))
    if not options.keyed and change.key is not None:
        filling |= _key_in_value(out, as_bytes(change.key), meta)
    shell = cells.members(meta["envelope"])
    value, key = message.put_together(cells, cells.filled_shell(shell, filling), meta, change.key)
    source = cells.struct(_SOURCE, cells.value(shell, "source")) if options.name is None else Absent()
    topic = cells.each(functools.partial(_topic, options), change.table, source.name)
    return RecordCells(value, key, topic, headers)


def _topic(options: DebeziumWrite, table: TableName | None, server: str | None) -> str | None:
    return topic_of(table, server or server_name(options))


def _odd_images(change: Change, meta: dict[str, bytes], placeholder: Placeholder) -> dict[str, bytes]:
    return {
        side: _image(change, side, meta, placeholder)
        for side in ("before", "after")
        if getattr(change, side) is not None and not (side == "after" and "derived" in meta)
    }


def _image(change: Change, side: str, meta: dict[str, bytes], form: Placeholder) -> bytes:
    image: bytes = as_bytes(getattr(change, side))
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
