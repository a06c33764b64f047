"""Changes into XTDB's events: full documents as text in a Debezium envelope, keyed by the record id."""

from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.writing import RecordCells, Writer
from changeling.formats.key_changes import rows_to_write
from changeling.formats.options import WriteOptions
from changeling.formats.xtdb.places import Place, places_of
from changeling.formats.xtdb.read import MILLISECOND, OPERATIONS, TOPIC_PREFIX
from changeling.model import json_text
from changeling.model.canonical import text_of
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

LETTERS = {
    **{operation: letter for letter, operation in OPERATIONS.items()},
    Operation.UPSERT: "u",
    Operation.REPLACE: "u",
}


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
        if not cells.only(cells.one_of(out.change.op, list(LETTERS))):
            key = None if out.change.key is None else text_of(_record_id(cells, out)).encode()
            return [RecordCells(None, key, topic)]
        meta = cells.members(out.change.meta) if out.native and out.change.meta is not None else {}
        records = []
        rows = [out.change] if out.native else rows_to_write(cells, out)
        for row, place in zip(rows, places_of(cells, out, len(rows)), strict=True):
            out.change = row
            record_id = _record_id(cells, out)
            value = (
                _kept_shape(cells, out, meta)
                if "envelope" in meta
                else _plain_shape(cells, out, record_id, place, meta.get("source"), options)
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
        cells.alone()
        objects = json_text.items(meta["objects"])
    filling = {
        side: cells.filled(document) if quote(side) in objects else cells.quoted(document)
        for side, document in (("before", out.change.before), ("after", out.change.after))
    }
    envelope = cells.filled_shell(cells.members(meta["envelope"]), filling)
    return cells.filled_shell(cells.members(meta["wrapper"]), {"payload": envelope}) if "wrapper" in meta else envelope


def _plain_shape(cells: Cells, out: Cell, record_id: Cell, place: Place, source: Cell, options: XtdbWrite) -> Cell:
    change = out.change
    time = cells.units(change.commit_time, MILLISECOND)
    finer = cells.present(time) & ~cells.equal(cells.time(time, MILLISECOND), change.commit_time)
    cells.lose(out, finer, "commit_time", "an event's time has milliseconds, this one has more digits")
    millis = cells.digits(time)
    own = cells.fields(change.transaction).id if out.native else None
    transaction = cells.joined(
        b'{"id":',
        cells.quoted(cells.first(own, cells.digits(place.tx_id))),
        b',"total_order":',
        cells.digits(place.total),
        b',"data_collection_order":',
        cells.digits(place.order),
        b"}",
    )
    return cells.joined(
        b'{"before":',
        cells.quoted(_before(cells, out, record_id, options.keyed)),
        b',"after":',
        cells.quoted(_with_id(cells, out, change.after, record_id)),
        b',"source":',
        _source(cells, change, place.tx_id, millis, options) if source is None else source,
        b',"op":"',
        cells.each(LETTERS.get, change.op),
        b'","ts_ms":',
        millis,
        b',"transaction":',
        cells.where(cells.present(place.total), transaction, b"null"),
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
        cells.digits(tx_id),
        b',"system_time":',
        millis,
        b"}",
    )


def _before(cells: Cells, out: Cell, record_id: Cell, keyed: bool) -> Cell:
    """The document before; where message keys are not kept, nothing but the event itself names the document of a delete."""
    change = out.change
    named = cells.equal(change.op, Operation.DELETE)
    if out.native and keyed:
        named &= cells.present(change.before)
    shown = cells.one_of(change.before_image, (Image.FULL, Image.PARTIAL))
    alone = cells.where(named, cells.joined(b'{"_id":', record_id, b"}"), None)
    return cells.where(shown, _with_id(cells, out, change.before, record_id), alone)


def _with_id(cells: Cells, out: Cell, document: Cell, record_id: Cell) -> Cell:
    """A document with its record id: as the first column, where it has none of that name."""
    there = cells.present(document)
    if out.native or not cells.any(there):
        return document
    own = cells.columns(document, ("_id",))["_id"]
    named = cells.present(own)
    if not cells.only(~named | cells.same(own, record_id)):
        out.lose("names", f"the table has a column _id that is not its key: {own.decode()[:60]}")
        return json_text.join({**json_text.members(document), "_id": record_id}.items())
    if not cells.any(there & ~named):
        return document
    return cells.where(named, document, cells.with_first(document, "_id", record_id))
