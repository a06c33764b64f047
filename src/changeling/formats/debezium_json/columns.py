"""Debezium's plain events, by columns: rows of relational tables, with and without the schema part."""

import functools
from collections.abc import Callable, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.change_columns import ChangeColumns
from changeling.envelope.events import Events
from changeling.envelope.parts import Clock, Tables, Words, transactions
from changeling.envelope.shapes import Shape, decoded, only_first_is_odd, shell
from changeling.envelope.text_columns import contained, distinct, distinct_rows, joined
from changeling.formats.debezium_json.decode import schema_texts
from changeling.formats.debezium_json.envelope import (
    DOCUMENTS,
    LETTERS,
    OPERATIONS,
    YDB,
    Placeholder,
    Source,
    Transaction,
)
from changeling.formats.debezium_json.image_columns import seen_before_images
from changeling.formats.debezium_json.key_columns import row_keys
from changeling.formats.debezium_json.options import DebeziumRead
from changeling.formats.debezium_json.origin import transaction_id
from changeling.formats.debezium_json.position_columns import positions_of
from changeling.formats.format import DecodeBatch
from changeling.model.operation import ROW_OPERATIONS, Image, Operation
from changeling.model.table import TableName


class PlainSource(Source, gc=False):
    """The source of a plain event: numbers are integers, and nothing is where only some dialects have it."""

    keyspace: None = None
    collection: None = None
    ts_ms: int | None = None
    ts_us: int | None = None
    ts_ns: int | None = None
    position: str | None = None


class PlainTransaction(Transaction, gc=False):
    """A transaction as almost all connectors write it."""

    id: str
    total_order: int | None = None
    data_collection_order: int | None = None


_sources = msgspec.json.Decoder(PlainSource)
_transactions = msgspec.json.Decoder(PlainTransaction)


def _table(catalog: str | None, schema: str | None, name: str | None) -> TableName | None:
    return TableName(catalog or None, schema or None, name) if name else None


_words = Words("op", {letter: op for letter, op in OPERATIONS.items() if op in ROW_OPERATIONS})
_tables = Tables(("source.db", "source.schema", "source.table"), _table)
_clock = Clock({"source.ts_ns": 1, "source.ts_us": 1_000, "source.ts_ms": 1_000_000})
_ODD = frozenset({*DOCUMENTS, YDB})
"""Connectors whose events are read one by one: their rows are documents, or may be incomplete."""
_LEAVES = ("connector", "db", "schema", "table", "ts_ms", "ts_us", "ts_ns", "position", "changeling")
_NULL = pa.scalar(b"null")

SchemaText = Callable[[TableName, bytes | None, bytes | None], str | None]


def batch_decoder(options: DebeziumRead) -> DecodeBatch:
    """A function from plain events to their changes."""
    placeholder, schema_text = Placeholder(options.placeholder), schema_texts(options)
    key_names = functools.lru_cache(maxsize=4096)(options.key_of)

    def decode(records: pa.RecordBatch, source: str) -> pa.RecordBatch:
        events, sources = _taken_apart(records)
        ops, (tables, places), transaction = _words(events), _tables(events), _transaction(events)
        position = positions_of(events, sources, transaction)
        before, after = _images(events, ops, placeholder)
        row = pc.coalesce(after, before)
        deleted = pc.equal(ops, Operation.DELETE.value)
        events.expect(pc.and_(pc.is_valid(position), pc.or_(pc.invert(deleted), pc.is_valid(before))))
        events.check()
        keys = row_keys(events, row, [key_names(table) for table in tables], places)
        return ChangeColumns(
            op=_marked_operations(events, ops),
            tables=tables,
            table=places,
            key=keys.key,
            before=before,
            after=after,
            before_image=_before_images(events, before, after, keys.key),
            after_image=pc.if_else(pc.is_valid(after), _marks(events, "after_image", Image.FULL), Image.NONE.value),
            position=position,
            commit_time=_clock(events),
            transaction=transaction,
            meta=_meta(events, keys.noted),
            schema=_schemas(events, tables, places, keys.schema, schema_text),
        ).batch(records.column("origin"), source, "debezium-json")

    return decode


def _taken_apart(records: pa.RecordBatch) -> tuple[Events, Sequence[Source]]:
    """The events in the envelope of the first one, bare or in a `payload`, and their sources."""
    values = records.column("value")
    outer: dict[str, pa.Array] = {}
    shape = Shape.of(values[0].as_py())
    if shape is not None and "op" not in shape.names and "payload" in shape.names:
        outer = shape.members(values)
        values = outer["payload"]
        shape = Shape.of(values[0].as_py())
    if shape is None or not {"op", "source"} <= set(shape.names):
        raise only_first_is_odd(len(values))
    events = Events(records, shape.members(values), outer)
    sources = decoded(events.texts["source"], _sources)
    events.add(sources, _LEAVES, "source.")
    headers = records.column("headers")
    if headers.null_count < len(headers):
        events.expect(pc.equal(pc.fill_null(pc.list_value_length(headers), 0), 0))
    connectors, places = distinct(events.leaves("source.connector"))
    events.expect(pa.array([(name or "").lower() not in _ODD for name in connectors], pa.bool_()).take(places))
    return events, sources


def _transaction(events: Events) -> pa.Array:
    given = events.texts.get("transaction")
    if given is None or pc.all(absent := pc.equal(given, _NULL)).as_py():
        none = pa.nulls(events.count, pa.int64())
        return transactions(pa.nulls(events.count, pa.string()), none, none)
    found = decoded(pc.if_else(absent, b'{"id":""}', given), _transactions)
    events.add(found, ("id", "data_collection_order", "total_order"), "transaction.")
    ids = pa.array(events.leaves("transaction.id"), pa.string())
    if contained(ids, [b":"]):
        ids = pa.array(map(transaction_id, events.leaves("transaction.id")), pa.string())
    return transactions(
        pc.if_else(absent, None, ids),
        events.numbers("transaction.data_collection_order"),
        events.numbers("transaction.total_order"),
    )


def _images(events: Events, ops: pa.Array, placeholder: Placeholder) -> tuple[pa.Array, pa.Array]:
    """The images of rows; plain ones are objects, or null where the operation has none, and without placeholders."""
    nothing = pa.repeat(_NULL, events.count)
    before, after = events.texts.get("before", nothing), events.texts.get("after", nothing)
    deleted = pc.equal(ops, Operation.DELETE.value)
    no_before, no_after = pc.equal(before, _NULL), pc.equal(after, _NULL)
    events.expect(pc.or_(no_before, pc.and_(pc.starts_with(before, b"{"), pc.invert(pc.starts_with(before, b"{}")))))
    events.expect(pc.if_else(deleted, no_after, pc.starts_with(after, b"{")))
    for image in (before, after):
        for trace in contained(image, placeholder.traces):
            events.expect(pc.invert(pc.match_substring(image, trace)))
    return pc.if_else(no_before, None, before), pc.if_else(no_after, None, after)


def _before_images(events: Events, before: pa.Array, after: pa.Array, keys: pa.Array) -> pa.Array:
    """How complete the rows before are: as marked, else by their columns and those after."""
    marked = pc.if_else(pc.is_valid(before), _marks(events, "before_image"), None)
    seen = seen_before_images(pc.if_else(pc.is_null(marked), before, None), after, keys)
    return pc.coalesce(marked, seen)


def _marks(events: Events, name: str, otherwise: str | None = None) -> pa.Array:
    """What our own records say beyond Debezium's envelope, in the mark of that name."""
    given = events.leaves("source.changeling")
    if not any(given):
        return pa.repeat(pa.scalar(otherwise, pa.string()), events.count)
    marks = (None if mark is None else getattr(mark, name) for mark in given)
    return pa.array((otherwise if mark is None else mark for mark in marks), pa.string(), size=events.count)


def _marked_operations(events: Events, ops: pa.Array) -> pa.Array:
    """The operations that the marks name, which must be written with the same letters, or else those of the letters."""
    marked = _marks(events, "op")
    if marked.null_count == len(marked):
        return ops
    letters = pa.array([LETTERS.get(op) for op in _operations(pc.coalesce(marked, ops))], pa.string())
    events.expect(pc.equal(letters, pa.array([LETTERS[op] for op in _operations(ops)], pa.string())))
    events.check()
    return pc.coalesce(marked, ops)


def _operations(ops: pa.Array) -> list[Operation]:
    known = {operation.value: operation for operation in Operation}
    return [known[op] for op in ops.to_pylist()]


def _meta(events: Events, noted: pa.Array | None) -> pa.Array:
    parts = [b'{"envelope":', *shell(events.texts, ("before", "after"))]
    if events.wrapper:
        parts += [b',"wrapper":', *shell(events.wrapper, ("payload",))]
    return joined(*parts, *(() if noted is None else (noted,)), b"}")


def _schemas(
    events: Events, tables: list[TableName], places: pa.Array, key_schema: pa.Array | None, schema_text: SchemaText
) -> pa.Array:
    value_schema = events.wrapper.get("schema")
    if value_schema is None:
        return pa.array([schema_text(table, None, None) for table in tables], pa.string()).take(places)
    value, key = value_schema.dictionary_encode(), None if key_schema is None else key_schema.dictionary_encode()
    nobody = [None] * events.count
    codes = [places.to_pylist(), value.indices.to_pylist(), nobody if key is None else key.indices.to_pylist()]
    found, which = distinct_rows(codes)
    made = []
    for table, at, own in found:
        key_text = None if key is None or own is None else key.dictionary[own].as_py()
        made.append(schema_text(tables[table], value.dictionary[at].as_py(), key_text))
    return pa.array(made, pa.string()).take(which)
