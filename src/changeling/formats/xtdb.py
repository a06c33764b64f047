"""`xtdb`: the events of XTDB's topics, one a changed document (seed 002): all three shapes that its documents and envelopes come in."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from changeling.envelope.cells import Cell, Cells, Members, MemberStruct
from changeling.envelope.reading import ChangeCells, Reader
from changeling.envelope.writing import RecordCells, Writer, milliseconds
from changeling.formats.capabilities import carrying
from changeling.formats.debezium_envelope import (
    IMAGES,
    LETTERS,
    OPERATIONS,
    document_key,
    operation_by,
    rewrapped,
    transaction_block,
)
from changeling.formats.format import Format, Outgoing
from changeling.formats.key_changes import rows_to_write
from changeling.formats.options import ReadOptions, WriteOptions
from changeling.formats.transaction_progress import number_of
from changeling.formats.type_table import CANONICAL
from changeling.model import json_text, position, times
from changeling.model.canonical import text_of
from changeling.model.change import Change, Record, Transaction
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

TOPIC_PREFIX = "xtdb.cdc."
"""XTDB's prefix of the table's name in a topic, where no other is chosen."""
EVENT_MEMBERS = ("before", "after", "source", "op", "ts_ms", "transaction")
TRANSACTION_MEMBERS = ("id", "total_order", "data_collection_order")
"""The members of the plain shape as XTDB writes them: of such an event only `source` is kept, the rest is in the change."""


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


_SOURCE, _TRANSACTION = MemberStruct("source", _Source), MemberStruct("transaction", _Transaction, nullable=True)
_operation = operation_by(OPERATIONS, "XTDB")
_time = json_text.named("ts_ms", msgspec.json.Decoder(int | None).decode)


class XtdbRead(ReadOptions, frozen=True, kw_only=True):
    """Options of an XTDB reader."""

    topic_prefix: str = TOPIC_PREFIX
    """The prefix of the table's name in a topic; read where a record itself names no table."""


def reader(options: XtdbRead) -> Reader:
    """A function from an event to its change."""
    by_topic = functools.partial(_table_of_topic, options)
    schema_text = functools.lru_cache(maxsize=4096)(options.schema_text)
    key_names = functools.lru_cache(maxsize=4096)(functools.partial(_key_names, options))

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        if record.value is None:
            key = None if record.key is None else _message_key(cells, record.key)
            table = cells.each(by_topic, None, record.topic)
            return ChangeCells(op=Operation.MESSAGE, table=table, key=key, meta=b'{"tombstone":true}')
        wrapper = cells.envelope(record.value)
        envelope = cells.members(wrapper["payload"], "payload") if "payload" in wrapper else wrapper
        for name in ("op", "source"):
            if name not in envelope:
                cells.refuse(f"not an XTDB event: it has no {name!r}")
        before, after = (cells.document(envelope, side) for side in IMAGES)
        places = cells.struct(_TRANSACTION, cells.value(envelope, "transaction"))
        source = cells.struct(_SOURCE, envelope["source"])
        op = cells.each(_operation, envelope["op"])
        deleted = cells.equal(op, Operation.DELETE)
        cells.expect(deleted ^ cells.present(after), lambda: _odd_document(envelope["op"], after))
        if cells.usually(cells.present(source.table)):
            table = cells.each(_table, source.db, source.table)
        else:
            table = by_topic(source.db, record.topic)
            cells.expect(
                cells.present(table), "the event names no table: source.table is missing; say which with --table"
            )
        key = _key(cells, cells.first(after, before), record, cells.common(cells.each(key_names, table)))
        cells.check_object(before)
        for document in (before, after):
            cells.check_depth(document)
        time = cells.first(source.ts_ms, source.system_time)
        if not cells.usually(cells.present(time)):
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
            commit_time=cells.time(time, times.NANOS_PER_MILLI),
            transaction=cells.transaction(places.id, places.data_collection_order, places.total_order),
            meta=_kept(cells, wrapper, envelope, source),
            schema=cells.each(schema_text, table),
        )

    return read


def _odd_document(op: bytes, after: str | bytes | None) -> str:
    return f"op {json_text.string(op)!r} {'without' if after is None else 'with'} a document in `after`"


def _key_names(options: XtdbRead, table: TableName | None) -> tuple[str, ...]:
    """The key columns that the user or a schema names; none where a schema's key is the record id: it may be found elsewhere, too."""
    names = options.key_of(table)
    return names if options.key or names != ("_id",) else ()


def _key(cells: Cells, row: Cell, record: Record, names: tuple[str, ...]) -> Cell:
    """The key by the columns that are named, or by the record id: in the document, or else the message key."""
    columns = {} if row is None else cells.columns(row, names or ("_id",))
    if columns and cells.usually(cells.all_present(columns.values())):
        return cells.key(columns)
    cells.one_by_one()
    if row is not None and names:
        raise Rejected(f"the document lacks the key columns {', '.join(n for n in names if columns[n] is None)}")
    return document_key(row, record.key)


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


def _kept(cells: Cells, wrapper: Members, envelope: Members, source: _Source) -> Cell:
    """What `meta` keeps: of a plain event its source, of another one all but the documents."""
    objects = [cells.starts(envelope.get(side), b"{") for side in IMAGES]
    if wrapper is envelope and tuple(envelope) == EVENT_MEMBERS:
        places = cells.value(envelope, "transaction")
        # A place is written as its number, which has no sign where it is 0.
        spelled = cells.ordered(places, TRANSACTION_MEMBERS) & ~cells.contains(places, [b"-0"])
        millis = cells.first(source.ts_ms, source.system_time)
        same_time = cells.equal(envelope["ts_ms"], cells.int_json(millis))
        if cells.branch(spelled & same_time & ~(objects[0] | objects[1])):
            time = ("commit_time.ms", cells.int_text(millis))
            known = {"ts_ms": time, "tx_id": ("position.0", cells.int_text(source.tx_id)), "system_time": time}
            return cells.object_meta("source", envelope["source"], known)
    parts = [b'{"envelope":', cells.json_object(envelope, IMAGES), cells.each(_objects, *objects)]
    if wrapper is not envelope:
        parts += [b',"wrapper":', cells.json_object(wrapper, ("payload",))]
    return cells.joined(*parts, b"}")


def _objects(*sides: bool) -> bytes:
    """The note of the documents that are not text."""
    found = [side for side, is_object in zip(IMAGES, sides, strict=True) if is_object]
    return b',"objects":%b' % quote(found) if found else b""


INT64_END = 2**63
"""The first number that an integer of 64 bits cannot hold."""


class EventOrder(NamedTuple):
    """Where an event stands: the number of its transaction, and its places in that and in the entire log."""

    tx_id: Cell
    order: Cell
    total: Cell
    """None where the event belongs to no transaction."""


def event_orders(cells: Cells, out: Cell, events: int) -> list[EventOrder]:
    """Where the events of a change stand: one, or two where it moves its row to another key.

    Those of an event that was read are its own, and so are those of a change whose position is the number of its transaction and
    the order inside, or 0 where it has none.
    """
    number, order = cells.components(cells.where(out.arrived, None, out.change.position), 2)
    declared = cells.fields(out.change.transaction)
    together = cells.present(declared.id)
    own = cells.present(number)
    if not out.native:
        named = cells.equal(declared.id, cells.int_json(number)) & cells.equal(declared.order, order)
        own &= ((together & named) | (~together & cells.equal(order, 0))) & cells.less(order, INT64_END // 2)
    if events == 1 and (cells.is_columnar or not (out.halves or out.progress.moved)) and cells.usually(own):
        out.placed = None if out.native else (number, order)
        return [EventOrder(number, order, cells.where(together, cells.first(declared.total, number), None))]
    return _event_orders(out, events)


def _event_orders(out: Outgoing, events: int) -> list[EventOrder]:
    """Where events stand whose change has others.

    All events of a transaction have its id as `tx_id`, and are numbered from 0, unless the change itself declares all of it:
    its position is the id and the order inside. A position that begins with the id is the place in the entire log too.
    """
    change = out.change
    parts = position.decode(change.position) if change.position is not None and not out.arrived else ()
    tx_id, order, total = (
        _alone(out, parts, events) if change.transaction is None else _together(out, change.transaction, parts)
    )
    kept = parts[:-1] == (tx_id,) if out.halves else parts == (tx_id, order) and events == 1
    if parts and not kept:
        out.lose(
            "position",
            "XTDB orders by tx_id and the place inside the transaction, and this position is not such a pair",
        )
    out.placed = (tx_id, order + events - 1)
    return [EventOrder(tx_id, order + number, total) for number in range(events)]


def _alone(out: Outgoing, parts: tuple[int, ...], events: int) -> EventOrder:
    """A change without a transaction; its two events count as one, or their order would be unknown."""
    tx_id = parts[0] if len(parts) == 2 and (out.halves or parts[1] == 0) and parts[0] < INT64_END else out.running
    return EventOrder(tx_id, 0, tx_id if events > 1 else None)


def _together(out: Outgoing, transaction: Transaction, parts: tuple[int, ...]) -> EventOrder:
    progress = out.progress
    tx_id = number_of(transaction.id, INT64_END)
    if tx_id is None:
        out.lose(
            "transaction", f"tx_id is the id of the transaction as a number, and {transaction.id!r} is not a number"
        )
        tx_id = progress.ordinal
    if transaction.order is not None and parts == (tx_id, transaction.order) and transaction.order < INT64_END // 2:
        order = transaction.order + progress.moved
    else:
        order = progress.events
    if transaction.order not in (None, order):
        out.lose(
            "transaction",
            f"the events of a transaction are numbered {order} here, and this change declares the order {transaction.order}",
        )
    if transaction.total is None and parts[:1] != (tx_id,):
        out.lose("transaction", "total_order is the place in the entire log, and this change declares none")
    return EventOrder(tx_id, order, tx_id if transaction.total is None else transaction.total)


class XtdbWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of an XTDB writer."""

    version: str = "3.0.0"
    """The release that `source.version` names."""
    name: str = "xtdb"
    """The node's name."""
    db: str | None = None
    """The database; the table's catalog where none is given."""
    topic_prefix: str | None = None
    """The prefix of the table's name in a topic; without one records keep their topic, and others get `xtdb.cdc.`."""

    @property
    def names_topic(self) -> bool:
        """A prefix was given."""
        return self.topic_prefix is not None


def writer(options: XtdbWrite) -> Writer:
    """A function from a change to its events."""
    prefix = TOPIC_PREFIX if options.topic_prefix is None else options.topic_prefix

    def topic_of(table: TableName | None) -> str | None:
        return None if table is None else f"{prefix}{table.name}"

    def write(cells: Cells, out: Cell) -> list[RecordCells]:
        topic = cells.each(topic_of, out.change.table)
        if not cells.usually(cells.one_of(out.change.op, list(LETTERS))):
            key = None if out.change.key is None else text_of(_record_id(cells, out)).encode()
            return [RecordCells(None, key, topic)]
        meta = cells.members(out.change.meta) if out.native and out.change.meta is not None else {}
        records = []
        rows = [out.change] if out.native else rows_to_write(cells, out)
        for row, at in zip(rows, event_orders(cells, out, len(rows)), strict=True):
            out.change = row
            record_id = _record_id(cells, out)
            value = (
                _kept_shape(cells, out, meta)
                if "envelope" in meta
                else _plain_shape(cells, out, record_id, at, meta.get("source"), options)
            )
            records.append(RecordCells(value, cells.content(record_id), topic))
        return records

    return write


def _record_id(cells: Cells, out: Cell) -> Cell:
    found = cells.sole_value(out.change.key)
    cells.lose(out, ~cells.present(found), "composite-key", lambda: _several_columns(out.change.key))
    return found


def _several_columns(key: str | bytes | None) -> str:
    names = json_text.members(key or b"{}")
    return f"a document has one _id, this key has {len(names)} columns: {', '.join(names)}"


def _kept_shape(cells: Cells, out: Cell, meta: Members) -> Cell:
    """An event of another shape, with its documents in it again."""
    objects: list[bytes] = []
    if "objects" in meta:
        cells.one_by_one()
        objects = json_text.items(meta["objects"])
    filling = {
        side: cells.or_null(document) if quote(side) in objects else cells.quoted(document)
        for side, document in (("before", out.change.before), ("after", out.change.after))
    }
    return rewrapped(cells, cells.refilled(cells.members(meta["envelope"]), filling), meta)


def _plain_shape(cells: Cells, out: Cell, record_id: Cell, at: EventOrder, source: Cell, options: XtdbWrite) -> Cell:
    change = out.change
    millis = cells.int_json(milliseconds(cells, out, "an event's time has milliseconds, this one has more digits"))
    own = cells.fields(change.transaction).id if out.native else None
    name = cells.first(own, cells.int_json(at.tx_id))
    transaction = transaction_block(cells, name, at.total, at.order)
    return cells.joined(
        b'{"before":',
        cells.quoted(_before(cells, out, record_id, options.keyed)),
        b',"after":',
        cells.quoted(_with_id(cells, out, change.after, record_id)),
        b',"source":',
        _source(cells, change, at.tx_id, millis, options) if source is None else source,
        b',"op":"',
        cells.each(LETTERS.get, change.op),
        b'","ts_ms":',
        millis,
        b',"transaction":',
        cells.where(cells.present(at.total), transaction, b"null"),
        b"}",
    )


def _source(cells: Cells, change: Cell, tx_id: Cell, millis: Cell, options: XtdbWrite) -> Cell:
    def names(table: TableName | None) -> bytes:
        database = options.db or (table and table.catalog) or "xtdb"
        return b',"db":%b,"table":%b' % (quote(database), quote(table and table.name))

    return cells.joined(
        b'{"version":%b,"connector":"xtdb-cdc","name":%b,"ts_ms":' % (quote(options.version), quote(options.name)),
        millis,
        b',"snapshot":',
        cells.where(cells.equal(change.op, Operation.READ), b'"true"', b"null"),
        cells.each(names, change.table),
        b',"tx_id":',
        cells.int_json(tx_id),
        b',"system_time":',
        millis,
        b"}",
    )


def _before(cells: Cells, out: Cell, record_id: Cell, keyed: bool) -> Cell:
    """The document before; where message keys are not kept, nothing but the event itself names the document of a delete."""
    change = out.change
    if out.native and keyed:
        return change.before
    named = cells.equal(change.op, Operation.DELETE)
    alone = cells.where(named, cells.joined(b'{"_id":', record_id, b"}"), None)
    if out.native:
        return cells.first(change.before, alone)
    shown = cells.one_of(change.before_image, (Image.FULL, Image.PARTIAL))
    return cells.where(shown, _with_id(cells, out, change.before, record_id), alone)


def _with_id(cells: Cells, out: Cell, document: Cell, record_id: Cell) -> Cell:
    """A document with its record id: as the first column, where it has none of that name."""
    there = cells.present(document)
    if out.native or not cells.any(there):
        return document
    own = cells.columns(document, ("_id",))["_id"]
    named = cells.present(own)
    if not cells.usually(~named | cells.same(own, record_id)):
        out.lose("names", f"the table has a column _id that is not its key: {own.decode()[:60]}")
        return json_text.join({**json_text.members(document), "_id": record_id}.items())
    if not cells.any(there & ~named):
        return document
    return cells.where(named, document, cells.with_first(document, "_id", record_id))


FORMAT = Format(
    name="xtdb",
    summary="XTDB's CDC topics: a Debezium envelope around whole documents",
    read_options=XtdbRead,
    write_options=XtdbWrite,
    reader=reader,
    writer=writer,
    carries=carrying(
        "read",
        "insert",
        "update",
        "delete",
        "before",
        "after",
        "position",
        "commit_time",
        "transaction",
        "table",
        "catalog",
        "null",
        "null-text",
        "types",
    ),
    types=CANONICAL,
    position="tx_id, data_collection_order",
    meta_templates=True,
    counts_transactions=True,
    signs=(("op", "source.tx_id"), ("payload.op", "payload.source.tx_id")),
)
