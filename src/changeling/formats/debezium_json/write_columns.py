"""Plain rows of other dialects as Debezium's events, by columns: images that pass as they are, in an envelope of our own connector."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.text_columns import Part, distinct_rows, joined, quoted
from changeling.envelope.written import Departures, RecordColumns, texts_of, where
from changeling.formats.debezium_json.envelope import LETTERS, OPERATIONS, Marks
from changeling.formats.debezium_json.image_columns import seen_before_images
from changeling.formats.debezium_json.options import DebeziumWrite
from changeling.formats.debezium_json.source import names_in_source, server_name, topic_of
from changeling.formats.format import EncodeBatch
from changeling.model.json_text import quote
from changeling.model.operation import ROW_OPERATIONS, Image, Operation

_ROWS = {operation.value: operation for operation in ROW_OPERATIONS}
_NANOS_PER_MS = 1_000_000


def batch_encoder(options: DebeziumWrite) -> EncodeBatch | None:
    """A function from plain changes to their messages: an event for each change, and a tombstone after each delete."""
    if options.schemas or options.times not in (None, "isostring") or options.decimals not in (None, "string"):
        return None

    def encode(changes: Departures) -> RecordColumns:
        changes.expect(np.full(changes.count, not changes.native))
        changes.expect(pc.is_in(changes.column("op"), pa.array(list(_ROWS))))
        changes.check()
        deleted = pc.equal(changes.column("op"), Operation.DELETE.value)
        key, names = changes.keys()
        before, after = _images(changes, deleted)
        changes.check_image(before, key, names)
        changes.check_image(after, key, names)
        marks = _marks(changes, before, after, key)
        before = pc.coalesce(before, pc.if_else(deleted, key, None))
        values, topics = _events(changes, before, after, marks, options)
        if not (options.tombstones and options.keyed):
            return RecordColumns(values, key, topics, np.arange(changes.count))
        ends = pc.indices_nonzero(deleted)
        places = np.concatenate((np.arange(changes.count), ends.to_numpy().astype(np.int64)))
        order = pa.array(np.argsort(places, kind="stable"))
        every = pa.array(places).take(order)
        with_tombstones = pa.concat_arrays([values, pa.nulls(len(ends), pa.binary())]).take(order)
        return RecordColumns(with_tombstones, key.take(every), topics.take(every), every.to_numpy())

    return encode


def _images(changes: Departures, deleted: pa.Array) -> tuple[pa.Array, pa.Array]:
    before, after = changes.column("before"), changes.column("after")
    before_image, after_image = changes.column("before_image"), changes.column("after_image")
    changes.expect(pc.equal(pc.is_valid(before), pc.not_equal(before_image, Image.NONE.value)))
    wanted = pc.if_else(deleted, Image.NONE.value, Image.FULL.value)
    changes.expect(pc.and_(pc.equal(after_image, wanted), pc.equal(pc.is_null(after), deleted)))
    changes.check()
    return before, after


def _marks(changes: Departures, before: pa.Array, after: pa.Array, key: pa.Array) -> Part:
    """What a reader cannot see from the events themselves."""
    ops, images = changes.column("op"), changes.column("before_image")
    different = pc.not_equal(seen_before_images(before, after, key), images)
    if not pc.any(different).as_py() and set(ops.unique().to_pylist()) <= _TOLD:
        return b""
    kinds, places = distinct_rows([ops.to_pylist(), pc.if_else(different, images, None).to_pylist()])
    made = []
    for op, image in kinds:
        marks = Marks(op=None if op in _TOLD else _ROWS[op], before_image=None if image is None else Image(image))
        made.append(b"" if marks == Marks() else b',"changeling":%b' % quote(marks))
    return pa.array(made, pa.binary()).take(places)


_TOLD = frozenset(name for name, operation in _ROWS.items() if OPERATIONS[LETTERS[operation]] is operation)
"""Operations whose letter is no other's."""


def _events(
    changes: Departures, before: pa.Array, after: pa.Array, marks: Part, options: DebeziumWrite
) -> tuple[pa.Array, pa.Array]:
    tables, places = changes.tables()
    ops = changes.column("op").dictionary_encode()
    letters = pa.array([LETTERS[_ROWS[op]] for op in ops.dictionary.to_pylist()], pa.binary()).take(ops.indices)
    snapshot = pc.if_else(pc.equal(changes.column("op"), Operation.READ.value), b"true", b"false")
    named = [names_in_source(options, table) for table in tables]
    (server,) = {one[0] for one in named}
    database, table = (pa.array([one[part] for one in named], pa.binary()).take(places) for part in (1, 2))
    millis, finer = _clock(changes.column("commit_time"))
    position = pc.if_else(changes.column("arrived"), None, changes.column("position"))
    values = joined(
        b'{"before":',
        pc.fill_null(before, "null"),
        b',"after":',
        pc.fill_null(after, "null"),
        b',"source":' + server + b',"ts_ms":',
        millis,
        b',"snapshot":"',
        snapshot,
        b'","db":',
        database,
        finer,
        table,
        where(pc.is_valid(position), b',"position":"', pc.fill_null(position, ""), b'"'),
        marks,
        b'},"transaction":',
        _transactions(changes.column("transaction")),
        b',"op":"',
        letters,
        b'","ts_ms":',
        millis,
        finer,
        b"}",
    )
    topics = [topic_of(table, server_name(options)) for table in tables]
    return values, pa.array(topics, pa.string()).take(places)


def _clock(nanos: pa.Array) -> tuple[pa.Array, Part]:
    """Milliseconds, and the finer clocks where a time needs them."""
    millis = _floored(nanos, _NANOS_PER_MS)
    finer = pc.fill_null(pc.not_equal(pc.multiply(millis, _NANOS_PER_MS), nanos), False)
    micros = _floored(nanos, 1_000)
    return texts_of(millis), where(finer, b',"ts_us":', texts_of(micros), b',"ts_ns":', texts_of(nanos))


def _floored(nanos: pa.Array, unit: int) -> pa.Array:
    # Arrow divides towards zero, and times before 1970 are negative.
    quotient = pc.divide(nanos, unit)
    return pc.subtract(quotient, pc.greater(pc.multiply(quotient, unit), nanos).cast(pa.int64()))


def _transactions(found: pa.Array) -> Part:
    if found.null_count == len(found):
        return b"null"
    ids, orders, totals, _ = found.flatten()
    made = joined(
        b'{"id":',
        quoted(ids),
        b',"total_order":',
        texts_of(totals),
        b',"data_collection_order":',
        texts_of(orders),
        b"}",
    )
    return pc.if_else(pc.is_valid(found), made, b"null")
