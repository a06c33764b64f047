"""Plain changes as XTDB's events, by columns: those that were read from plain events, and rows of other dialects with places of their own."""

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.change_columns import SHOWN
from changeling.envelope.keys import lacking
from changeling.envelope.parts import are_positions
from changeling.envelope.shapes import decoded
from changeling.envelope.text_columns import Part, column, is_one_of, joined, quoted
from changeling.envelope.written import Departures, RecordColumns, texts_of
from changeling.formats.format import EncodeBatch
from changeling.formats.xtdb.encode import XtdbWrite
from changeling.formats.xtdb.envelope import LETTERS, TOPIC_PREFIX
from changeling.formats.xtdb.places import INT64
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

_NANOS_PER_MS = 1_000_000
_POSITION = r"^[0-9]{2}(?P<number>[0-9]+)\.[0-9]{2}(?P<order>[0-9]+)$"
_ID = r'^\{"[^"\\]*":(?P<id>"[^"\\]*"|[^",{\[]+)\}$'
_LETTERS = {operation.value: letter for operation, letter in LETTERS.items()}


class _Meta(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """What is kept of a plain event."""

    source: msgspec.Raw


_metas = msgspec.json.Decoder(_Meta)


def batch_encoder(options: XtdbWrite) -> EncodeBatch:
    """A function from plain changes to their events."""

    def encode(changes: Departures) -> RecordColumns:
        place = pc.extract_regex(changes.column("position"), _POSITION)
        changes.expect(pc.and_(pc.is_valid(place), pc.invert(changes.column("arrived"))))
        changes.expect(are_positions(changes.column("position")))
        changes.check()
        number, order = (part.cast(pa.int64()) for part in place.flatten())
        key, names = changes.keys()
        ids = pc.struct_field(pc.extract_regex(key, _ID), "id")
        changes.expect(pc.is_valid(ids))
        changes.check()
        if changes.native:
            source = _kept_source(changes)
            before, after = changes.column("before"), changes.column("after")
            by_key = pc.and_(_is_delete(changes), pc.or_(pc.is_valid(before), pa.scalar(not options.keyed)))
        else:
            _check_places(changes, number, order)
            source = _source(changes, number, options)
            before, after = (_documents(changes, side, ids, key, names) for side in ("before", "after"))
            by_key = _is_delete(changes)
        shown = is_one_of(changes.column("before_image"), SHOWN)
        alone = joined(b'{"_id":', ids, b"}").cast(pa.string())
        before = pc.if_else(shown, before, pc.if_else(by_key, alone, None))
        values = joined(
            b'{"before":',
            quoted(before),
            b',"after":',
            quoted(after),
            b',"source":',
            source,
            b',"op":"',
            pa.array(map(_LETTERS.get, changes.column("op").to_pylist()), pa.binary(), size=changes.count),
            b'","ts_ms":',
            _milliseconds(changes),
            b',"transaction":',
            _transactions(changes, number, order),
            b"}",
        )
        positions = () if changes.native else (number, order)
        return RecordColumns(values, _texts(ids), _topics(changes, options), np.arange(changes.count), positions)

    return encode


def _is_delete(changes: Departures) -> pa.Array:
    return pc.equal(changes.column("op"), Operation.DELETE.value)


def _kept_source(changes: Departures) -> pa.Array:
    """The sources of changes that were read from plain events; those of other events have kept more."""
    given = changes.column("meta")
    changes.expect(pc.is_valid(given))
    changes.check()
    return column([meta.source for meta in decoded(given, _metas)])


def _check_places(changes: Departures, number: pa.Array, order: pa.Array) -> None:
    """Positions that are a transaction's number and the order inside it, or alone, are those of the events."""
    ids, orders, _, _ = changes.column("transaction").flatten()
    own = pc.and_(pc.equal(ids, number.cast(pa.string())), pc.equal(orders, order))
    alone = pc.and_(pc.is_null(changes.column("transaction")), pc.equal(order, 0))
    changes.expect(pc.if_else(pc.is_valid(changes.column("transaction")), own, alone))
    changes.expect(pc.less(order, INT64 // 2))
    changes.check()


def _documents(changes: Departures, side: str, ids: pa.Array, key: pa.Array, names: tuple[str, ...] | None) -> pa.Array:
    """Images as documents: with the record id in front, unless it is the column of the key."""
    image = changes.column(side)
    changes.expect(pc.equal(pc.is_valid(image), pc.not_equal(changes.column(f"{side}_image"), Image.NONE.value)))
    changes.check()
    changes.check_image(image, key, names)
    by_id = pc.starts_with(key, '{"_id":')
    if pc.all(by_id).as_py():
        return image
    given = pc.fill_null(image, "{}")
    changes.expect(pc.or_(by_id, pa.array(lacking(given, "_id"))))
    changes.check()
    rest = pc.replace_substring_regex(given, r"^\{", "")
    comma = pc.if_else(pc.equal(rest, "}"), b"", b",")
    named = joined(b'{"_id":', ids, comma, rest).cast(pa.string())
    return pc.if_else(pc.is_valid(image), pc.if_else(by_id, image, named), None)


def _milliseconds(changes: Departures) -> pa.Array:
    """The times of changes, which must have no finer digits."""
    nanos = changes.column("commit_time")
    millis = pc.divide(nanos, _NANOS_PER_MS)
    changes.expect(pc.or_kleene(pc.is_null(nanos), pc.equal(pc.multiply(millis, _NANOS_PER_MS), nanos)))
    changes.check()
    return texts_of(millis)


def _source(changes: Departures, number: pa.Array, options: XtdbWrite) -> pa.Array:
    tables, places = changes.tables()
    time = _milliseconds(changes)
    named = pa.array([_names(options, table) for table in tables], pa.binary()).take(places)
    snapshot = pc.if_else(pc.equal(changes.column("op"), Operation.READ.value), b'"true"', b"null")
    return joined(
        b'{"version":%b,"connector":"xtdb-cdc","name":%b,"ts_ms":' % (quote(options.version), quote(options.name)),
        time,
        b',"snapshot":',
        snapshot,
        named,
        b',"tx_id":',
        texts_of(number),
        b',"system_time":',
        time,
        b"}",
    )


def _names(options: XtdbWrite, table: TableName) -> bytes:
    return b',"db":%b,"table":%b' % (quote(options.db or table.catalog or "xtdb"), quote(table.name))


def _transactions(changes: Departures, number: pa.Array, order: pa.Array) -> Part:
    found = changes.column("transaction")
    if found.null_count == len(found):
        return b"null"
    ids, _, totals, _ = found.flatten()
    made = joined(
        b'{"id":',
        quoted(ids),
        b',"total_order":',
        texts_of(pc.coalesce(totals, number)),
        b',"data_collection_order":',
        texts_of(order),
        b"}",
    )
    return pc.if_else(pc.is_valid(found), made, b"null")


def _texts(ids: pa.Array) -> pa.Array:
    """Record ids as message keys: the content of texts, the digits of numbers."""
    return pc.if_else(pc.starts_with(ids, '"'), pc.utf8_slice_codeunits(ids, 1, -1), ids)


def _topics(changes: Departures, options: XtdbWrite) -> pa.Array:
    tables, places = changes.tables()
    prefix = TOPIC_PREFIX if options.topic_prefix is None else options.topic_prefix
    own = pa.array([f"{prefix}{table.name}" for table in tables], pa.string()).take(places)
    if not changes.native or options.names_topic:
        return own
    return pc.coalesce(pc.struct_field(changes.column("origin"), "topic"), own)
