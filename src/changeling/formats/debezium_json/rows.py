"""Rows of other dialects as events: their images, their keys, and what Debezium cannot express."""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from changeling.formats.debezium_json.connect_schema import envelope_schema, key_schema
from changeling.formats.debezium_json.envelope import LETTERS, NEW_KEY, OLD_KEY, OPERATIONS, Marks, Placeholder
from changeling.formats.debezium_json.images import Columns, before_image, with_key, with_placeholders
from changeling.formats.debezium_json.options import DebeziumWrite
from changeling.formats.debezium_json.source import clock, milliseconds, server_name, source_of, topic_of
from changeling.formats.debezium_json.types import TYPES, Decimals, Times, wire_name
from changeling.formats.format import Outgoing
from changeling.formats.key_changes import rows_of
from changeling.formats.zoned_times import is_zoned
from changeling.model import json_text
from changeling.model.canonical import Convert
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import schema_from_json


class _Wire(NamedTuple):
    """How the rows of one schema are written: each column's conversion, and both schema parts."""

    conversions: Mapping[str, Convert]
    columns: tuple[str, ...]
    value_schema: bytes | None
    key_schema: bytes | None


class RowWriter:
    """Writes changes of rows with one set of options."""

    def __init__(self, options: DebeziumWrite) -> None:
        self._options = options
        self._placeholder = Placeholder(options.placeholder)
        self._times: Times = options.times or ("adaptive" if options.schemas else "isostring")
        self._decimals: Decimals = options.decimals or ("precise" if options.schemas else "string")
        self._wire = functools.lru_cache(maxsize=1024)(self._wire_of)

    def records(self, out: Outgoing) -> list[Record]:
        """The messages of one change: a change of the key is a delete, its tombstone, and a create."""
        change = out.change
        if change.op is Operation.TRUNCATE:
            return [self._record(out, change)]
        parts = rows_of(out, in_part=True)
        records: list[Record] = []
        for place, part in enumerate(parts):
            record = self._record(out, _shifted(part, out.progress.moved + place))
            records.append(record)
            if (
                part.op is Operation.DELETE
                and record.key is not None
                and self._options.tombstones
                and self._options.keyed
            ):
                records.append(Record(None, record.key, topic=record.topic))
        if len(parts) == 2:
            old, new = records[0].key, records[-1].key
            records[0].headers, records[-1].headers = ((NEW_KEY, new),), ((OLD_KEY, old),)
        return records

    def _record(self, out: Outgoing, change: Change) -> Record:
        topic = topic_of(change.table, server_name(self._options))
        wire = self._wire(change.schema, topic or "", tuple(json_text.members(change.key or b"{}")))
        key = {} if change.key is None else self._converted(json_text.members(change.key), wire)
        before, after = self._before(change, key, wire), self._after(change, key, wire)
        envelope: list[tuple[str, bytes | str]] = []
        if change.op is not Operation.TRUNCATE:
            envelope += [("before", _printed(before)), ("after", _printed(after))]
        envelope += [
            ("source", source_of(out, change, self._options, _marks(change, before, after, key, self._placeholder))),
            ("transaction", _transaction(change)),
            ("op", quote(LETTERS[change.op])),
            ("ts_ms", milliseconds(change.commit_time)),
            *clock(change.commit_time),
        ]
        value, message_key = json_text.join(envelope), json_text.join(key.items()) if key else None
        if wire.value_schema is not None:
            value = json_text.join([("schema", wire.value_schema), ("payload", value)])
            if message_key is not None and wire.key_schema is not None:
                message_key = json_text.join([("schema", wire.key_schema), ("payload", message_key)])
        return Record(value, message_key, topic=topic)

    def _before(self, change: Change, key: Columns, wire: _Wire) -> Columns | None:
        if change.before is not None and change.before_image is not Image.NONE:
            columns = self._converted(json_text.members(change.before), wire)
            return with_key(columns, key) if change.before_image is not Image.KEY else columns or key
        # The event itself must name the row: many readers of deletes look nowhere else.
        return key if change.op is Operation.DELETE and key else None

    def _after(self, change: Change, key: Columns, wire: _Wire) -> Columns | None:
        if change.after is None or change.op is Operation.DELETE:
            return None
        columns = with_key(self._converted(json_text.members(change.after), wire), key)
        if change.after_image is Image.PARTIAL and wire.columns:
            return with_placeholders(columns, wire.columns, self._placeholder)
        return columns

    def _converted(self, columns: Columns, wire: _Wire) -> Columns:
        if not wire.conversions:
            return columns
        return {
            name: value if value == b"null" or name not in wire.conversions else wire.conversions[name](value)
            for name, value in columns.items()
        }

    def _wire_of(self, text: str | None, topic: str, key: tuple[str, ...]) -> _Wire:
        if text is None:
            if self._options.schemas:
                raise Rejected("the schema part needs the types of the columns, which are not known; give --columns")
            return _Wire({}, (), None, None)
        schema = schema_from_json(text)
        names = tuple(column.name for column in schema.columns)
        if not self._options.schemas and (self._times, self._decimals) == ("isostring", "string"):
            return _Wire({}, names, None, None)
        wires = {
            column.name: wire_name(column.canonical, self._times, self._decimals, zoned=is_zoned(column.original_type))
            for column in schema.columns
        }
        conversions = {}
        for column in schema.columns:
            write = TYPES.writer(column.canonical, wires[column.name])
            if write is not None:
                plain = TYPES.writer(column.canonical) is None
                conversions[column.name] = write if plain else _chain(TYPES.reader(column.canonical), write)
        if not self._options.schemas:
            return _Wire(conversions, names, None, None)
        schema = msgspec.structs.replace(schema, key=key or schema.key)
        return _Wire(
            conversions, names, envelope_schema(schema, wires, topic), key_schema(schema, wires, schema.key, topic)
        )


def _chain(read: Convert, write: Convert) -> Convert:
    def both(raw: bytes) -> bytes:
        return write(read(raw))

    return both


def _printed(columns: Columns | None) -> bytes:
    return b"null" if columns is None else json_text.join(columns.items())


def _shifted(change: Change, more: int) -> Change:
    """The change at its place in the transaction, shifted by the events that the source did not have: moved rows are two."""
    found = change.transaction
    if not more or found is None or found.order is None:
        return change
    return msgspec.structs.replace(change, transaction=msgspec.structs.replace(found, order=found.order + more))


def _transaction(change: Change) -> bytes:
    found = change.transaction
    if found is None:
        return b"null"
    return quote({"id": found.id, "total_order": found.total, "data_collection_order": found.order})


def _marks(
    change: Change, before: Columns | None, after: Columns | None, key: Columns, placeholder: Placeholder
) -> Marks | None:
    """What a reader cannot see from the event itself."""
    marks = Marks()
    if OPERATIONS[LETTERS[change.op]] is not change.op:
        marks.op = change.op
    if before is not None and change.before is not None:
        seen = before_image(before.keys(), None if after is None else after.keys(), key.keys() or None)
        marks.before_image = change.before_image if seen is not change.before_image else None
    if after is not None and change.after_image is Image.PARTIAL and placeholder.plain not in after.values():
        marks.after_image = Image.PARTIAL
    return None if marks == Marks() else marks
