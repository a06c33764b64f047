"""Plain records of YDB's Debezium form, by columns."""

import functools

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.change_columns import ChangeColumns, full_or_none, schemas
from changeling.envelope.events import Events
from changeling.envelope.parts import Clock, Words, positions, transactions
from changeling.envelope.shapes import Shape, decoded, only_first_is_odd, shell
from changeling.envelope.text_columns import distinct, joined
from changeling.formats.debezium_json.key_columns import row_keys
from changeling.formats.format import DecodeBatch
from changeling.formats.ydb_debezium.decode import YdbDebeziumRead, schema_texts, tables_of
from changeling.formats.ydb_debezium.envelope import CONNECTOR, Source
from changeling.formats.ydb_json.envelope import Mode
from changeling.model.operation import Operation
from changeling.model.table import TableName


class PlainSource(Source, gc=False, kw_only=True):
    """The source of a plain record: it has all places of the change."""

    ts_ms: int
    step: int
    transaction: int = msgspec.field(name="txId")


_sources = msgspec.json.Decoder(PlainSource)
_words = Words("op", {"c": Operation.INSERT, "u": Operation.UPDATE, "d": Operation.DELETE, "r": Operation.READ})
_clock = Clock({"source.ts_ms": 1_000_000})
_IMAGES = ("before", "after")
_MEMBERS = ("op", "before", "after", "source")
"""As YDB writes them; a record has the images that its change has."""
_NULL = pa.scalar(b"null")


def batch_decoder(options: YdbDebeziumRead) -> DecodeBatch:
    """A function from plain records to their changes."""
    table_of, schema_text = tables_of(options), schema_texts(options)
    key_names = functools.lru_cache(maxsize=4096)(options.key_of)
    overwrite = Operation.INSERT if Mode.named(options.mode) is Mode.OLD_IMAGE else Operation.UPSERT

    def decode(records: pa.RecordBatch, source: str) -> pa.RecordBatch:
        events = _taken_apart(records)
        topics, places = distinct(records.column("topic").to_pylist())
        found = [table_of(topic) for topic in topics]
        events.expect(pa.array([table is not None for table in found], pa.bool_()).take(places))
        events.check()
        tables: list[TableName] = [table for table in found if table is not None]
        before, after = _images(events)
        ops = _words(events)
        ops = pc.if_else(pc.and_(pc.equal(ops, Operation.UPDATE.value), pc.is_null(before)), overwrite.value, ops)
        row = pc.coalesce(after, before)
        deleted = pc.equal(ops, Operation.DELETE.value)
        events.expect(pc.and_(pc.equal(deleted, pc.is_null(after)), pc.is_valid(row)))
        step, number = events.numbers("source.step"), events.numbers("source.transaction")
        position = positions(step, number)
        events.expect(pc.is_valid(position))
        events.check()
        keys = row_keys(events, row, [key_names(table) for table in tables], places, _message_keys)
        none = pa.nulls(events.count, pa.int64())
        noted = () if keys.noted is None else (keys.noted,)
        return ChangeColumns(
            op=ops,
            tables=tables,
            table=places,
            key=keys.key,
            before=before,
            after=after,
            before_image=full_or_none(before),
            after_image=full_or_none(after),
            position=position,
            commit_time=_clock(events),
            transaction=transactions(number.cast(pa.string()), none, none),
            meta=joined(b'{"payload":', *shell(events.texts, _IMAGES), *_outside(events), *noted, b"}"),
            schema=schemas(tables, places, schema_text),
        ).batch(records.column("origin"), source, "ydb-debezium")

    return decode


def _taken_apart(records: pa.RecordBatch) -> Events:
    """The records in the envelope of the first one, in a `payload` or bare."""
    values = records.column("value")
    outer: dict[str, pa.Array] = {}
    shape = Shape.of(values[0].as_py())
    if shape is not None and "payload" in shape.names:
        outer = shape.members(values)
        values = outer["payload"]
        shape = Shape.of(values[0].as_py())
    if shape is None or not {"op", "source"} <= set(shape.names):
        raise only_first_is_odd(len(values))
    shape = shape.with_optional(_IMAGES, _MEMBERS)
    events = Events(records, shape.members(values), outer)
    events.add(decoded(events.texts["source"], _sources), ("connector", "ts_ms", "step", "transaction"), "source.")
    headers = records.column("headers")
    if headers.null_count < len(headers):
        events.expect(pc.is_null(headers))
    connectors, places = distinct(events.leaves("source.connector"))
    events.expect(pa.array([name in (None, CONNECTOR) for name in connectors], pa.bool_()).take(places))
    events.check()
    return events


def _images(events: Events) -> tuple[pa.Array, pa.Array]:
    nothing = pa.nulls(events.count, pa.binary())
    before, after = (events.texts.get(side, nothing) for side in _IMAGES)
    for image in (before, after):
        events.expect(pc.or_kleene(pc.is_null(image), pc.or_(pc.equal(image, _NULL), pc.starts_with(image, b"{"))))
    return pc.if_else(pc.equal(before, _NULL), None, before), pc.if_else(pc.equal(after, _NULL), None, after)


def _message_keys(key: pa.Array) -> pa.Array:
    """The message keys that YDB writes."""
    return joined(b'{"payload":', key, b"}")


def _outside(events: Events) -> list[pa.Array | bytes]:
    """What `meta` keeps of what the envelope is in."""
    if not events.wrapper:
        return [b',"bare":true']
    return [b',"wrapper":', *shell(events.wrapper, ("payload",))] if len(events.wrapper) > 1 else []
