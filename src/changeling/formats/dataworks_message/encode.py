"""Changes into DataWorks' whole-database messages, each with its table's schema; an update is two messages of one id."""

import functools
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from changeling.formats.dataworks import message_key
from changeling.formats.dataworks.rows import Side, sides
from changeling.formats.dataworks.sequence import NANOS_PER_MILLI
from changeling.formats.dataworks_message import types
from changeling.formats.dataworks_message.envelope import BEFORE_HALF, NAMES, WireColumn, ddl_name
from changeling.formats.dataworks_message.schema import print_schema, wire_columns
from changeling.formats.format import Encode, Outgoing
from changeling.formats.options import WriteOptions
from changeling.model import json_text, position
from changeling.model.change import Change, Record
from changeling.model.json_text import quote
from changeling.model.operation import ROW_OPERATIONS, Image, Operation
from changeling.model.table import TableName, TableSchema, schema_from_json

_STATEMENTS = ("statement", "query", "ddl")


class DataworksMessageWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a writer of DataWorks' messages."""

    update: Literal["one", "two"] | None = None
    """Whether an update is one message with both rows, or two; without a choice it is as it was read, else two."""
    start: Annotated[int, msgspec.Meta(ge=0)] = 1
    """The first sequence id given to changes of other dialects; each change takes the next."""
    db_type: str | None = None
    """The database's type in `schema.source`."""
    db_version: str | None = None
    """The database's version in `schema.source`."""


def encoder(options: DataworksMessageWrite) -> Encode:
    """A function from one change to its messages."""
    return _Writer(options).encode


class _Writer:
    def __init__(self, options: DataworksMessageWrite) -> None:
        self._options = options
        self._source = {"dbType": quote(options.db_type), "dbVersion": quote(options.db_version)}
        self._known_schema = functools.lru_cache(maxsize=1024)(self._schema_of)

    def encode(self, out: Outgoing) -> Sequence[Record]:
        change = out.change
        meta = json_text.members(change.meta) if out.native and change.meta else {}
        topic = None if change.table is None else change.table.name
        if "tombstone" in meta:
            return [Record(None, message_key.restored(meta, change.key), topic=topic)]
        rows = sides(out) if change.op in ROW_OPERATIONS else []
        if not out.native:
            rows = [_in_wire_types(out, side) for side in rows]
        split = self._options.update == "two" if self._options.update else not out.native or "half" in meta
        groups = [[side] for side in rows] if len(rows) == 2 and split else [rows]
        records = []
        for group in groups:
            name = _name(out, meta, group)
            if "record" in meta:
                value = _kept_shape(meta["record"], name, group)
            else:
                value = self._plain_shape(out, meta, name, group)
            key = message_key.restored(meta, group[-1].key if group else change.key)
            records.append(Record(value, key, topic=topic))
        return records

    def _plain_shape(self, out: Outgoing, meta: dict[str, bytes], name: str, group: list[Side]) -> bytes:
        change = out.change
        images = {side.name: b'{"dataColumn":%b}' % side.image for side in group}
        payload = [("before", images.get("before", b"null")), ("after", images.get("after", b"null"))]
        payload.append(("sequenceId", meta["sequenceId"] if "sequenceId" in meta else quote(self._number(out))))
        payload.extend((extra, meta[extra]) for extra in ("scn",) if extra in meta)
        payload.append(("op", quote(name)))
        stamp = [("eventTime", _event_time(out))]
        stamp.extend((extra, meta[extra]) for extra in ("systemTime", "checkpointTime") if extra in meta)
        payload.append(("timestamp", json_text.join(stamp)))
        if "ddl" in meta:
            payload.append(("ddl", meta["ddl"]))
        elif change.op is Operation.DDL and (statement := _statement(change)):
            payload.append(("ddl", json_text.join([("text", quote(statement))])))
        message = [("schema", self._schema(out, meta, group)), ("payload", json_text.join(payload))]
        message.extend((extra, meta[extra]) for extra in ("version",) if extra in meta)
        return json_text.join(message)

    def _number(self, out: Outgoing) -> str:
        if not out.native:
            return str(self._options.start + out.number - 1)
        return str(position.decode(out.change.position or "")[0])

    def _schema(self, out: Outgoing, meta: dict[str, bytes], group: list[Side]) -> bytes:
        change = out.change
        if "schema" in meta:
            return meta["schema"]
        if "source" in meta and change.schema is not None:
            own = schema_from_json(change.schema)
            return print_schema(wire_columns(own), own.key, change.table, json_text.members(meta["source"]))
        key = _key_columns(change)
        extra = _unlisted(group, change.schema)
        if not extra:
            return self._known_schema(change.schema, change.table, key)
        return print_schema([*_listed(change.schema), *extra], key, change.table, self._source)

    def _schema_of(self, schema: str | None, table: TableName | None, key: tuple[str, ...]) -> bytes:
        return print_schema(_listed(schema), key, table, self._source)


def _key_columns(change: Change) -> tuple[str, ...]:
    """The key in the schema's order; a row without a key has none, whatever the schema says."""
    known = () if change.schema is None else schema_from_json(change.schema).key
    if change.key is None:
        return () if change.op in ROW_OPERATIONS else known
    names = tuple(json_text.members(change.key))
    return known if set(known) == set(names) else names


def _listed(schema: str | None) -> list[WireColumn]:
    if schema is None:
        return []
    return [WireColumn(column.name, types.name_of(column.canonical)) for column in schema_from_json(schema).columns]


def _unlisted(group: list[Side], schema: str | None) -> list[WireColumn]:
    """Columns that no schema names, by the type that their values look like."""
    known: TableSchema | None = None if schema is None else schema_from_json(schema)
    if known is None and all(side.size is Image.KEY for side in group):
        # A list of only the key's columns would make them the full row.
        return []
    found = {}
    for side in group:
        for name, raw in json_text.members(side.image).items():
            if known is None or known.column(name) is None:
                found[name] = WireColumn(name, types.guess(raw))
    return list(found.values())


def _name(out: Outgoing, meta: dict[str, bytes], group: list[Side]) -> str:
    change = out.change
    if len(group) == 1 and group[0].name == "before" and change.op is not Operation.DELETE:
        return BEFORE_HALF
    if "op" in meta:
        return json_text.string(meta["op"])
    if change.op is Operation.DDL and not out.native:
        return ddl_name(_statement(change) or "")
    return NAMES[change.op]


def _kept_shape(raw: bytes, name: str, group: list[Side]) -> bytes:
    """The message as it was around its rows; in the other half of an update the sides are swapped."""
    message = json_text.members(raw)
    payload = json_text.members(message["payload"])
    if name == BEFORE_HALF and payload["op"] != quote(BEFORE_HALF):
        turned = {"before": "after", "after": "before"}
        payload = {turned.get(member, member): part for member, part in payload.items()}
    for side in group:
        shape = payload.get(side.name, b"null")
        around = json_text.members(shape) if shape != b"null" else {"dataColumn": b"null"}
        payload[side.name] = json_text.join(
            (member, side.image if member == "dataColumn" else part) for member, part in around.items()
        )
    payload["op"] = quote(name)
    message["payload"] = json_text.join(payload.items())
    return json_text.join(message.items())


def _in_wire_types(out: Outgoing, side: Side) -> Side:
    """The row with every timestamp in milliseconds: what a DATE cannot express is lost only if the user allows it."""
    schema = out.schema
    if schema is None:
        return side
    row = json_text.members(side.image)
    fine = [
        column.name
        for column in schema.columns
        if column.canonical.kind in types.MOMENTS and row.get(column.name, b"")[:1] == b'"'
    ]
    if not fine:
        return side
    shown = row[fine[0]].decode()
    out.lose("types", f"a DATE counts milliseconds since 1970, and column {fine[0]!r} is {shown}")
    row.update((name, types.shortened(row[name])) for name in fine)
    return side._replace(image=json_text.join(row.items()))


def _statement(change: Change) -> str | None:
    meta = json_text.members(change.meta or b"{}")
    texts = (meta[name] for name in _STATEMENTS if name in meta)
    return next((json_text.string(text) for text in texts if text[:1] == b'"'), None)


def _event_time(out: Outgoing) -> bytes:
    nanos = out.change.commit_time
    if nanos is None:
        return b"null"
    millis, rest = divmod(nanos, NANOS_PER_MILLI)
    if rest:
        out.lose("commit_time", "eventTime has milliseconds, this time has more digits")
    return str(millis).encode()
