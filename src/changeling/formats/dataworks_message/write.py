"""Changes into DataWorks' whole-database messages, each with its table's schema; an update is two messages of one id."""

import functools
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Condition, Members
from changeling.envelope.rows import ImageColumns
from changeling.envelope.scalar_cells import SCALARS
from changeling.envelope.writing import RecordCells, Writer, kept, milliseconds
from changeling.formats.dataworks import topic_of
from changeling.formats.dataworks_message import types
from changeling.formats.dataworks_message.read import BEFORE_HALF, IMAGES, NAMES, PAYLOAD, TIMES
from changeling.formats.format import Outgoing
from changeling.formats.options import WriteOptions
from changeling.formats.row_sides import Sides, sides
from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.json_text import quote
from changeling.model.operation import ROW_OPERATIONS, Image, Operation
from changeling.model.table import schema_from_json

_TURNED = {"before": "after", "after": "before"}


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
        if "record" in meta:
            cells.one_by_one()
        split = options.update == "two" if options.update else not out.native or "half" in meta
        statement = None
        if cells.usually(cells.one_of(change.op, list(ROW_OPERATIONS))):
            rows = sides(cells, out, functools.partial(_described, out, source, split))
        else:
            key = None if change.key is None else json_text.members(change.key)
            columns, statement = quote(_listed(change.schema)), _statement_of(change)
            described = types.schema_text(SCALARS, columns, _key_names(change.schema, key), change.table, source)
            rows = Sides(None, None, None, (None, described))
        name = cells.each(NAMES.get, change.op)
        if "op" in meta:
            name = cells.text(meta["op"])
        elif statement is not None and not out.native:
            name = ddl_name(statement)
        listed = meta.get("schema")
        if listed is None and "source" in meta:
            listed = cells.each(types.own_schema, change.schema, change.table, meta["source"])
        shape = json_text.members(meta["record"]) if "record" in meta else {}
        body = json_text.members(shape["payload"]) if shape else _body(cells, out, meta, options.start, statement)

        def record(before: Cell, after: Cell, schema: Cell, where: Condition) -> RecordCells:
            alone = cells.present(before) & ~cells.present(after)
            is_half = alone & ~cells.equal(change.op, Operation.DELETE)
            own_name = cells.quoted(cells.where(is_half, BEFORE_HALF, name))
            payload = dict(body)
            if shape and is_half and payload["op"] != own_name:
                # The other half of an update has the sides the other way round.
                payload = {_TURNED.get(member, member): part for member, part in payload.items()}
            for side, image in zip(IMAGES, (before, after), strict=True):
                if image is not None:
                    there = payload.get(side, b"null")
                    around = {} if there == b"null" else json_text.members(there)
                    shown = cells.json_object({**around, "dataColumn": cells.or_null(image)})
                    payload[side] = cells.where(cells.present(image), shown, there)
            plain = {"schema": cells.first(listed, schema), "payload": None, "version": meta.get("version")}
            text = cells.json_object({**(shape or plain), "payload": cells.json_object({**payload, "op": own_name})})
            own_key = message_keys.restored(cells, meta, cells.where(alone, rows.old_key, change.key))
            return RecordCells(text, own_key, topic, where=where)

        both = cells.present(rows.before) & cells.present(rows.after) & cells.mask(split)
        made = [record(rows.before, None, rows.others[0], both)] if cells.any(both) else []
        return [*made, record(cells.where(both, None, rows.before), rows.after, rows.others[1], True)]

    return write


def _body(cells: Cells, out: Cell, meta: Members, start: int, statement: str | None) -> Members:
    """The members of a payload in their order; images and `op` are to be filled in."""
    found = {name: meta.get(name) for name in PAYLOAD} | dict.fromkeys(IMAGES, b"null")
    if "sequenceId" not in meta:
        own = cells.components(out.change.position, 2)[0] if out.native else cells.plus(out.running, start - 1)
        found["sequenceId"] = cells.joined(b'"', cells.int_json(own), b'"')
    if "ddl" not in meta and statement:
        found["ddl"] = json_text.join([("text", quote(statement))])
    time = milliseconds(cells, out, "eventTime has milliseconds, this time has more digits")
    stamp = {name: meta.get(name) for name in TIMES}
    return {**found, "timestamp": cells.json_object({**stamp, "eventTime": cells.int_json(time)})}


def _described(
    out: Outgoing, source: Members, split: bool, cells: Cells, row: ImageColumns
) -> tuple[ImageColumns, Sequence[Cell]]:
    """The row in the types of the wire; the schemas of a message with the row before, and of one with the other, or both."""
    kind, before, after = row.kind, row.before, row.after
    if not out.native:
        before, after = (_in_wire_types(out, cells, kind.schema, image) for image in (before, after))
    key = () if row.key is None else _key_names(kind.schema, row.key)
    sizes = {size for image, size in ((before, kind.before_image), (after, kind.after_image)) if image}
    known: Members = {column.name: quote(column) for column in _listed(kind.schema)}
    apart = split and before is not None and after is not None
    texts = []
    for images in ((before,), (after,) if apart else (before, after)):
        found = dict(known)
        # A list of only the key's columns would make them the full row.
        for image in images if kind.schema is not None or sizes - {Image.KEY} else ():
            for name, raw in (image or {}).items():
                if name not in known:
                    found[name] = cells.joined(b'{"name":%b,"type":"' % quote(name), types.guess(cells, raw), b'"}')
        texts.append(types.schema_text(cells, cells.array_of(found.values()), key, kind.table, source))
    return row._replace(before=before, after=after), texts


def _listed(schema: str | None) -> list[types.WireColumn]:
    if schema is None:
        return []
    return [
        types.WireColumn(column.name, types.name_of(column.canonical)) for column in schema_from_json(schema).columns
    ]


def _key_names(schema: str | None, key: Members | None) -> tuple[str, ...]:
    """The key in the schema's order."""
    known = () if schema is None else schema_from_json(schema).key
    return known if key is None or set(known) == set(key) else tuple(key)


def _in_wire_types(out: Outgoing, cells: Cells, schema: str | None, image: Members | None) -> Members | None:
    """The row with every timestamp in milliseconds: what a DATE cannot express is lost only if the user allows it."""
    if image is None or schema is None:
        return image
    found = dict(image)
    for column in schema_from_json(schema).columns:
        raw = image.get(column.name)
        if raw is not None and column.canonical.kind in types.MOMENTS and not cells.usually(~cells.starts(raw, b'"')):
            out.lose("types", f"a DATE counts milliseconds since 1970, and column {column.name!r} is {raw.decode()}")
            found[column.name] = types.shortened(raw)
    return found


_DDL_NAMES = {
    "CREATE INDEX": "CINDEX",
    "CREATE UNIQUE INDEX": "CINDEX",
    "DROP INDEX": "DINDEX",
    "DROP": "ERASE",
    "CREATE": "CREATE",
    "ALTER": "ALTER",
    "RENAME": "RENAME",
}


def ddl_name(statement: str) -> str:
    """The `op` of a statement, by its first words."""
    words = f"{' '.join(statement.upper().split(None, 3)[:3])} "
    return next((name for start, name in _DDL_NAMES.items() if words.startswith(f"{start} ")), NAMES[Operation.DDL])


def _statement_of(change: Change) -> str | None:
    """The statement of a DDL change; of others, none."""
    if change.op is not Operation.DDL:
        return None
    meta = json_text.members(change.meta or b"{}")
    texts = (meta[name] for name in ("statement", "query", "ddl") if name in meta)
    return next((json_text.string(text) for text in texts if text[:1] == b'"'), "")
