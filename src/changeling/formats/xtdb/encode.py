"""Changes into XTDB events: full documents as text in a Debezium envelope, keyed by the record id."""

from collections.abc import Sequence

from changeling.formats.format import Encode, Outgoing
from changeling.formats.key_changes import rows_of
from changeling.formats.options import WriteOptions
from changeling.formats.xtdb.envelope import LETTERS, TOPIC_PREFIX
from changeling.formats.xtdb.places import Place, places
from changeling.model import json_text, position
from changeling.model.canonical import text_of
from changeling.model.change import Change, Record
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation


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


def encoder(options: XtdbWrite) -> Encode:
    """A function from one change to its event."""

    def encode(out: Outgoing) -> Sequence[Record]:
        change = out.change
        if change.op is Operation.MESSAGE:
            return _tombstone(out, options)
        meta = json_text.members(change.meta) if out.native and change.meta else {}
        records = []
        rows = [change] if out.native else rows_of(out)
        found = [_own_place(change)] if out.native and not out.arrived else places(out, len(rows))
        for row, place in zip(rows, found, strict=True):
            out.change = row
            record_id = _record_id(out)
            if "envelope" in meta:
                value = _kept_shape(row, meta)
            else:
                value = _plain_shape(out, record_id, place, meta.get("source"), options)
            records.append(Record(value, text_of(record_id).encode(), topic=_topic(row, options)))
        return records

    return encode


def _topic(change: Change, options: XtdbWrite) -> str | None:
    prefix = TOPIC_PREFIX if options.topic_prefix is None else options.topic_prefix
    return None if change.table is None else f"{prefix}{change.table.name}"


def _tombstone(out: Outgoing, options: XtdbWrite) -> list[Record]:
    key = None if out.change.key is None else text_of(_record_id(out)).encode()
    return [Record(None, key, topic=_topic(out.change, options))]


def _record_id(out: Outgoing) -> bytes:
    key = json_text.members(out.change.key or b"{}")
    if len(key) != 1:
        out.lose("composite-key", f"a document has one _id, this key has {len(key)} columns: {', '.join(key)}")
    return next(iter(key.values()))


def _kept_shape(change: Change, meta: dict[str, bytes]) -> bytes:
    objects = json_text.items(meta.get("objects", b"[]"))
    envelope = json_text.join(
        (
            name,
            _document_value(getattr(change, name), quote(name) not in objects) if name in ("before", "after") else part,
        )
        for name, part in json_text.members(meta["envelope"]).items()
    )
    if "wrapper" not in meta:
        return envelope
    wrapper = json_text.members(meta["wrapper"])
    return json_text.join((name, envelope if name == "payload" else part) for name, part in wrapper.items())


def _document_value(document: str | bytes | None, text: bool) -> bytes:
    if document is None:
        return b"null"
    raw = document.encode() if isinstance(document, str) else document
    return quote(raw.decode()) if text else raw


def _own_place(change: Change) -> Place:
    """The position of a change that was read from an event."""
    number, order = position.decode(change.position or position.encode(0, 0))[:2]
    found = change.transaction
    return Place(number, order, None if found is None else number if found.total is None else found.total)


def _plain_shape(out: Outgoing, record_id: bytes, place: Place, source: bytes | None, options: XtdbWrite) -> bytes:
    change = out.change
    if change.commit_time is not None and change.commit_time % 1_000_000:
        out.lose("commit_time", "an event's time has milliseconds, this one has more digits")
    time = b"null" if change.commit_time is None else str(change.commit_time // 1_000_000).encode()
    if source is None:
        source = _source(change, place.tx_id, time, options)
    transaction = b"null"
    if place.total is not None:
        own = change.transaction if out.native else None
        name = str(place.tx_id) if own is None else own.id
        transaction = quote({"id": name, "total_order": place.total, "data_collection_order": place.order})
    return json_text.join(
        [
            ("before", _document_value(_before(out, record_id, options.keyed), text=True)),
            ("after", _document_value(_with_id(out, change.after, record_id), text=True)),
            ("source", source),
            ("op", quote(LETTERS[change.op])),
            ("ts_ms", time),
            ("transaction", transaction),
        ]
    )


def _source(change: Change, tx_id: int, time: bytes, options: XtdbWrite) -> bytes:
    table = change.table
    return json_text.join(
        [
            ("version", quote(options.version)),
            ("connector", b'"xtdb-cdc"'),
            ("name", quote(options.name)),
            ("ts_ms", time),
            ("snapshot", b'"true"' if change.op is Operation.READ else b"null"),
            ("db", quote(options.db or (table and table.catalog) or "xtdb")),
            ("table", quote(table and table.name)),
            ("tx_id", str(tx_id).encode()),
            ("system_time", time),
        ]
    )


def _before(out: Outgoing, record_id: bytes, keyed: bool) -> str | bytes | None:
    change = out.change
    if change.before_image in (Image.FULL, Image.PARTIAL):
        return _with_id(out, change.before, record_id)
    if change.op is not Operation.DELETE or (out.native and keyed and change.before is None):
        return None
    # The event itself must name the document: where message keys are not kept, nothing else does.
    return b'{"_id":%b}' % record_id


def _with_id(out: Outgoing, document: str | bytes | None, record_id: bytes) -> str | bytes | None:
    if document is None or out.native:
        return document
    columns = json_text.members(document)
    if "_id" not in columns:
        return json_text.join([("_id", record_id), *columns.items()])
    if json_text.canonical(columns["_id"]) != record_id:
        out.lose("names", f"the table has a column _id that is not its key: {columns['_id'].decode()[:60]}")
        columns["_id"] = record_id
    return json_text.join(columns.items())
