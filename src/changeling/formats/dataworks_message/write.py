"""Changes into DataWorks' whole-database messages, each with its table's schema; an update is two messages of one id."""

import functools
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.rows import Row
from changeling.envelope.writing import RecordCells, Writer, kept, milliseconds
from changeling.formats.dataworks.rows import Sides, sides
from changeling.formats.dataworks.write import topic_of
from changeling.formats.dataworks_message import types
from changeling.formats.dataworks_message.envelope import BEFORE_HALF, NAMES, WireColumn, ddl_name
from changeling.formats.dataworks_message.schema import behind_columns, print_schema, wire_columns
from changeling.formats.format import Outgoing
from changeling.formats.options import WriteOptions
from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.json_text import quote
from changeling.model.operation import ROW_OPERATIONS, Image, Operation
from changeling.model.table import TableName, schema_from_json

_STATEMENTS = ("statement", "query", "ddl")
_ROWS = [operation.value for operation in ROW_OPERATIONS]
_KEPT_TIMES = ("systemTime", "checkpointTime")


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


def writer(options: DataworksMessageWrite) -> Writer:
    """A function from a change to its messages."""
    source = {"dbType": quote(options.db_type), "dbVersion": quote(options.db_version)}

    def write(cells: Cells, out: Cell) -> Sequence[RecordCells]:
        change, meta = out.change, kept(cells, out)
        topic = cells.each(topic_of, change.table)
        if "tombstone" in meta:
            return [RecordCells(None, message_keys.restored(cells, meta, change.key), topic)]
        split = options.update == "two" if options.update else not out.native or "half" in meta
        if cells.only(cells.one_of(change.op, _ROWS)):
            rows = sides(cells, out, functools.partial(_described, out, source, split))
        else:
            text = print_schema(_listed(change.schema), _key_columns(change), change.table, source)
            rows = Sides(None, None, None, (None, None, None, text))
        before, after, *schemas = rows.others
        if not out.native:
            rows = rows._replace(before=cells.where(cells.present(rows.before), before, None), after=after)
        there = cells.present(rows.before), cells.present(rows.after)
        both = there[0] & there[1] & cells.mask(split)

        def record(before: Cell, after: Cell, schema: Cell, where: Cell) -> RecordCells:
            name = _name(cells, out, meta, cells.present(before) & ~cells.present(after))
            key = cells.where(cells.present(before) & ~cells.present(after), rows.old_key, change.key)
            text = (
                _kept_shape(meta["record"], name, before, after)
                if "record" in meta
                else _plain_shape(cells, out, meta, options.start, name, before, after, schema)
            )
            return RecordCells(text, message_keys.restored(cells, meta, key), topic, where=where)

        if "record" in meta:
            cells.alone()
        made = []
        if cells.any(both):
            made.append(record(rows.before, None, schemas[0], both))
        made.append(record(cells.where(both, None, rows.before), rows.after, schemas[1], True))
        return made

    return write


def _plain_shape(
    cells: Cells, out: Cell, meta: Members, start: int, name: Cell, before: Cell, after: Cell, schema: Cell
) -> Cell:
    change = out.change
    before, after = (cells.filled(cells.joined(b'{"dataColumn":', image, b"}")) for image in (before, after))
    number = meta.get("sequenceId")
    if number is None:
        own = cells.components(change.position, 2)[0] if out.native else cells.plus(out.running, start - 1)
        number = cells.joined(b'"', cells.digits(own), b'"')
    time = milliseconds(cells, out, "eventTime has milliseconds, this time has more digits")
    times = cells.shell({"eventTime": cells.digits(time), **{name: meta.get(name) for name in _KEPT_TIMES}})
    ddl = meta.get("ddl")
    if ddl is None and not cells.many and change.op is Operation.DDL and (statement := _statement(change)):
        ddl = json_text.join([("text", quote(statement))])
    payload = cells.shell(
        {
            "before": before,
            "after": after,
            "sequenceId": number,
            "scn": meta.get("scn"),
            "op": cells.quoted(name),
            "timestamp": times,
            "ddl": ddl,
        }
    )
    listed = meta.get("schema")
    if listed is None and "source" in meta:
        listed = cells.each(_own_schema, change.schema, change.table, meta["source"])
    return cells.shell({"schema": cells.first(listed, schema), "payload": payload, "version": meta.get("version")})


def _own_schema(schema: str | None, table: TableName | None, source: bytes) -> bytes | None:
    """The schema that a message had, from what `meta` kept of it."""
    if schema is None:
        return None
    own = schema_from_json(schema)
    return print_schema(wire_columns(own), own.key, table, json_text.members(source))


def _described(out: Cell, source: Members, split: bool, cells: Cells, row: Row) -> Sequence[Cell]:
    """The rows in the types of the wire, and the schemas of a message with the row before, and of one with the other, or with both."""
    if not out.native:
        row = row._replace(
            before=_in_wire_types(out, cells, row, row.before), after=_in_wire_types(out, cells, row, row.after)
        )
    kind = row.kind
    key = _key_names(kind.schema, row.key, is_row=True)
    apart = split and row.before is not None and row.after is not None
    texts = []
    for images in ((row.before,), (row.after,) if apart else (row.before, row.after)):
        columns = _columns(cells, kind.schema, [image for image in images if image is not None], _is_key(row))
        texts.append(cells.joined(b'{"dataColumn":', columns, behind_columns(key, kind.table, source)))
    return *(None if image is None else cells.shell(image) for image in (row.before, row.after)), *texts


def _is_key(row: Row) -> bool:
    """All that is known of the columns is the key."""
    sizes = (row.before and row.kind.before_image, row.after and row.kind.after_image)
    return all(size is Image.KEY for size in sizes if size)


def _columns(cells: Cells, schema: str | None, images: Sequence[Members], is_key: bool) -> Cell:
    """The schema's columns, and those that it does not name, by the type that their values look like."""
    known = _listed(schema)
    names = {column.name for column in known}
    found: Members = {column.name: quote(column) for column in known}
    # A list of only the key's columns would make them the full row.
    for image in () if schema is None and is_key else images:
        for name, raw in image.items():
            if name not in names:
                found[name] = cells.joined(b'{"name":%b,"type":"' % quote(name), types.guess(cells, raw), b'"}')
    return cells.array_of(found.values())


def _listed(schema: str | None) -> list[WireColumn]:
    if schema is None:
        return []
    return [WireColumn(column.name, types.name_of(column.canonical)) for column in schema_from_json(schema).columns]


def _key_columns(change: Change) -> tuple[str, ...]:
    return _key_names(change.schema, None if change.key is None else json_text.members(change.key), is_row=False)


def _key_names(schema: str | None, key: Members | None, *, is_row: bool) -> tuple[str, ...]:
    """The key in the schema's order; a row without a key has none, whatever the schema says."""
    known = () if schema is None else schema_from_json(schema).key
    if key is None:
        return () if is_row else known
    return known if set(known) == set(key) else tuple(key)


def _name(cells: Cells, out: Cell, meta: Members, before_alone: Cell) -> Cell:
    """The `op` of a message."""
    change = out.change
    if "op" in meta:
        own = cells.text(meta["op"])
    elif not cells.many and change.op is Operation.DDL and not out.native:
        own = ddl_name(_statement(change) or "")
    else:
        own = cells.each(NAMES.__getitem__, change.op)
    return cells.where(before_alone & ~cells.equal(change.op, Operation.DELETE), BEFORE_HALF, own)


def _kept_shape(raw: bytes, name: str, before: Cell, after: Cell) -> bytes:
    """The message as it was around its rows; in the other half of an update the sides are swapped."""
    message = json_text.members(raw)
    payload = json_text.members(message["payload"])
    if name == BEFORE_HALF and payload["op"] != quote(BEFORE_HALF):
        turned = {"before": "after", "after": "before"}
        payload = {turned.get(member, member): part for member, part in payload.items()}
    for side, image in (("before", before), ("after", after)):
        if image is not None:
            shape = payload.get(side, b"null")
            around = json_text.members(shape) if shape != b"null" else {"dataColumn": b"null"}
            payload[side] = json_text.join({**around, "dataColumn": image}.items())
    payload["op"] = quote(name)
    message["payload"] = json_text.join(payload.items())
    return json_text.join(message.items())


def _in_wire_types(out: Outgoing, cells: Cells, row: Row, image: Members | None) -> Members | None:
    """The row with every timestamp in milliseconds: what a DATE cannot express is lost only if the user allows it."""
    if image is None or row.kind.schema is None:
        return image
    found = dict(image)
    for column in schema_from_json(row.kind.schema).columns:
        raw = image.get(column.name)
        if raw is not None and column.canonical.kind in types.MOMENTS and not cells.only(~cells.starts(raw, b'"')):
            out.lose("types", f"a DATE counts milliseconds since 1970, and column {column.name!r} is {raw.decode()}")
            found[column.name] = types.shortened(raw)
    return found


def _statement(change: Change) -> str | None:
    meta = json_text.members(change.meta or b"{}")
    texts = (meta[name] for name in _STATEMENTS if name in meta)
    return next((json_text.string(text) for text in texts if text[:1] == b'"'), None)
