"""XTDB's events into changes: all three shapes that its documents and envelopes come in."""

import functools
from collections.abc import Sequence

import msgspec

from changeling.envelope.cells import Cell, Cells, Members, Part
from changeling.envelope.reading import ChangeCells, Reader
from changeling.formats.options import ReadOptions
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

OPERATIONS = {
    "c": Operation.INSERT,
    "u": Operation.UPDATE,
    "d": Operation.DELETE,
    "r": Operation.READ,
}
TOPIC_PREFIX = "xtdb.cdc."
"""XTDB's prefix of the table's name in a topic, where no other is chosen."""
EVENT = ("before", "after", "source", "op", "ts_ms", "transaction")
TRANSACTION = ("id", "total_order", "data_collection_order")
"""The members of the plain shape as XTDB writes them: of such an event only `source` is kept, the rest is in the change."""
IMAGES = ("before", "after")
MILLISECOND = 1_000_000


class _Transaction(msgspec.Struct, gc=False):
    """The transaction's id as text, and the event's places in the log and in the transaction."""

    id: str
    total_order: int
    data_collection_order: int


class _Source(msgspec.Struct, gc=False):
    """What the reader needs of `source`; the rest of it is kept as it is."""

    tx_id: int
    table: str | None = None
    db: str | None = None
    ts_ms: int | None = None
    system_time: int | None = None


_SOURCE, _PLACES = Part("source", _Source), Part("transaction", _Transaction, nullable=True)
_op = json_text.named("op", msgspec.json.Decoder(str).decode)
_time = json_text.named("ts_ms", msgspec.json.Decoder(int | None).decode)


class XtdbRead(ReadOptions, frozen=True, kw_only=True):
    """Options of an XTDB reader."""

    topic_prefix: str = TOPIC_PREFIX
    """The prefix of the table's name in a topic; read where a record itself names no table."""


def reader(options: XtdbRead) -> Reader:
    """A function from an event to its change."""
    by_topic = functools.partial(_table_of_topic, options)
    schema_text = functools.lru_cache(maxsize=4096)(options.schema_text)

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        if record.value is None:
            key = None if record.key is None else _message_key(cells, record.key)
            table = cells.each(by_topic, None, record.topic)
            return ChangeCells(op=Operation.MESSAGE, table=table, key=key, meta=b'{"tombstone":true}')
        wrapper = cells.members(record.value)
        envelope = cells.members(wrapper["payload"], "payload") if "payload" in wrapper else wrapper
        for name in ("op", "source"):
            if name not in envelope:
                cells.refuse(f"not an XTDB event: it has no {name!r}")
        before, after = (cells.document(envelope, side) for side in IMAGES)
        places = cells.struct(_PLACES, cells.value(envelope, "transaction"))
        source = cells.struct(_SOURCE, envelope["source"])
        op = cells.each(_operation, envelope["op"])
        deleted = cells.equal(op, Operation.DELETE)
        cells.expect(deleted ^ cells.present(after), lambda: _odd_document(envelope["op"], after))
        row = cells.first(after, before)
        key = _key(cells, row, record, options.key)
        cells.check_object(before)
        for document in (before, after):
            cells.check_depth(document)
        if cells.only(cells.present(source.table)):
            table = cells.each(_table, source.db, source.table)
        else:
            table = by_topic(source.db, record.topic)
            cells.expect(
                cells.present(table), "the event names no table: source.table is missing; say which with --table"
            )
        time = cells.first(source.ts_ms, source.system_time)
        if not cells.only(cells.present(time)):
            time = _time(envelope.get("ts_ms", b"null"))
        alone = deleted & cells.equal(before, key)
        return ChangeCells(
            op=op,
            table=table,
            key=key,
            before=before,
            after=after,
            before_image=cells.where(cells.present(before), cells.where(alone, Image.KEY, Image.FULL), Image.NONE),
            after_image=cells.where(deleted, Image.NONE, Image.FULL),
            position=cells.position(source.tx_id, cells.first(places.data_collection_order, 0)),
            commit_time=cells.time(time, MILLISECOND),
            transaction=cells.transaction(places.id, places.data_collection_order, places.total_order),
            meta=_kept(cells, wrapper, envelope, source.ts_ms),
            schema=cells.each(schema_text, table),
        )

    return read


def _operation(raw: bytes) -> Operation:
    letter = _op(raw)
    if letter not in OPERATIONS:
        raise Rejected(f"unknown op {letter!r}: XTDB has c, u, d and r")
    return OPERATIONS[letter]


def _odd_document(op: bytes, after: str | bytes | None) -> str:
    return f"op {_op(op)!r} {'without' if after is None else 'with'} a document in `after`"


def _key(cells: Cells, row: Cell, record: Record, names: tuple[str, ...]) -> Cell:
    """The key by the columns that the user named, or by the record id: in the document, or else the message key."""
    columns = {} if row is None else cells.columns(row, names or ("_id",))
    if columns and cells.only(cells.all_present(columns.values())):
        return cells.key(columns)
    cells.alone()
    if row is not None:
        if names:
            raise Rejected(f"the document lacks the key columns {', '.join(n for n in names if columns[n] is None)}")
        old = json_text.members(row).get("xt/id")
        if old is not None:
            return json_text.canonical_key([("_id", old)])
    if record.key is None:
        raise Rejected("no record id: neither `_id` nor `xt/id` in the document, and no message key")
    return _message_key(cells, record.key)


def _message_key(cells: Cells, key: Cell) -> Cell:
    return cells.joined(b'{"_id":', cells.quoted(key), b"}")


def _table(catalog: str | None, name: str) -> TableName:
    return TableName(catalog, None, name)


def _table_of_topic(options: XtdbRead, catalog: str | None, topic: str | None) -> TableName | None:
    """The table of a record that names none."""
    if topic is not None and topic.startswith(options.topic_prefix):
        return _table(catalog, topic[len(options.topic_prefix) :])
    declared = options.table
    if declared is None or declared.catalog is not None:
        return declared
    return TableName(catalog, declared.schema, declared.name)


def _kept(cells: Cells, wrapper: Members, envelope: Members, time: Cell) -> Cell:
    """What `meta` keeps: of a plain event its source, of another one all but the documents."""
    objects = [cells.starts(envelope.get(side), b"{") for side in IMAGES]
    if wrapper is envelope and tuple(envelope) == EVENT:
        spelled = cells.ordered(cells.value(envelope, "transaction"), TRANSACTION)
        if cells.branch(spelled & cells.equal(envelope["ts_ms"], cells.digits(time)) & ~(objects[0] | objects[1])):
            return cells.joined(b'{"source":', envelope["source"], b"}")
    parts = [b'{"envelope":', cells.shell(envelope, IMAGES), cells.each(_objects, *objects)]
    if wrapper is not envelope:
        parts += [b',"wrapper":', cells.shell(wrapper, ("payload",))]
    return cells.joined(*parts, b"}")


def _objects(*sides: bool) -> bytes:
    """The note of the documents that are no text."""
    found = [side for side, is_object in zip(IMAGES, sides, strict=True) if is_object]
    return b',"objects":%b' % quote(found) if found else b""
