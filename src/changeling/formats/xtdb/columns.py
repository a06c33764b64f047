"""XTDB's plain events, by columns: the quick path for what topics really contain."""

import functools
from itertools import chain

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.change_columns import ChangeColumns, full_or_none, schemas
from changeling.envelope.events import Events
from changeling.envelope.keys import in_rows, keys_of
from changeling.envelope.objects import are_objects, are_shallow
from changeling.envelope.parts import Clock, Tables, Transactions, positions
from changeling.envelope.shapes import Shape, decoded, only_first_is_odd
from changeling.envelope.text_columns import column, ends, joined
from changeling.formats.format import DecodeBatch
from changeling.formats.xtdb.decode import XtdbRead
from changeling.formats.xtdb.envelope import OPERATIONS, Envelope, Source
from changeling.formats.xtdb.envelope import Transaction as WireTransaction
from changeling.model import json_text
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

_envelopes = msgspec.json.Decoder(Envelope)
_sources = msgspec.json.Decoder(Source)
_EVENT = tuple(field.encode_name for field in msgspec.structs.fields(Envelope))
_TRANSACTION = tuple(field.encode_name for field in msgspec.structs.fields(WireTransaction))
_OPS = {letter: operation.value for letter, operation in OPERATIONS.items()}


def _table(catalog: str | None, name: str | None) -> TableName | None:
    return None if name is None else TableName(catalog, None, name)


_tables = Tables(("source.db", "source.table"), _table)
_clock = Clock({"ts_ms": 1_000_000})
_transactions = Transactions("transaction.id", "transaction.data_collection_order", "transaction.total_order")


def batch_decoder(options: XtdbRead) -> DecodeBatch | None:
    """A function from plain events to their changes."""
    if options.key not in ((), ("_id",)):
        return None

    @functools.lru_cache(maxsize=4096)
    def schema(table: TableName) -> str | None:
        found = options.schema_of(table)
        return None if found is None else found.to_json()

    def decode(records: pa.RecordBatch, source: str) -> pa.RecordBatch:
        events = _taken_apart(records)
        ops = pa.array(map(_OPS.get, events.leaves("op")), pa.string())
        before, after = (pa.array(events.leaves(side), pa.string()) for side in ("before", "after"))
        deleted = pc.equal(ops, Operation.DELETE.value)
        row = pc.coalesce(after, before)
        events.expect(pc.and_(pc.equal(deleted, pc.is_null(after)), pc.is_valid(row)))
        tables, places = _tables(events)
        commit_time, transaction = _clock(events), _transactions(events)
        position = positions(events.numbers("source.tx_id"), transaction.field("order"))
        events.expect(pc.is_valid(position))
        events.check()
        (ids,), plain = in_rows(row, ("_id",))
        key = keys_of([("_id", ids)]).cast(pa.string())
        events.expect(plain)
        events.expect(are_objects(before))
        events.expect(are_shallow(row))
        events.check()
        alone = pc.fill_null(pc.and_(deleted, pc.equal(before, key)), False)
        return ChangeColumns(
            op=ops,
            tables=tables,
            table=places,
            key=key,
            before=before,
            after=after,
            before_image=pc.if_else(alone, Image.KEY.value, full_or_none(before)),
            after_image=full_or_none(after),
            position=position,
            commit_time=commit_time,
            transaction=transaction,
            meta=joined(b'{"source":', events.texts["source"], b"}"),
            schema=schemas(tables, places, schema),
        ).batch(records.column("origin"), source, "xtdb")

    return decode


def _taken_apart(records: pa.RecordBatch) -> Events:
    """The events; only those are plain whose members, and those of their transaction, come as XTDB writes them."""
    values = records.column("value")
    literals = _literals(values[0].as_py())
    if literals is None:
        raise only_first_is_odd(len(values))
    events = Events(records, {})
    events.add(decoded(values, _envelopes), _EVENT)
    events.add(events.leaves("transaction"), _TRANSACTION, "transaction.")
    events.texts["source"] = source = column(events.leaves("source"))
    events.add(decoded(source, _sources), ("tx_id", "table", "db", "ts_ms"), "source.")
    times = events.numbers("ts_ms")
    events.expect(pc.equal(times, events.numbers("source.ts_ms")))
    holes = (
        source,
        pa.array(events.leaves("op"), pa.string()),
        times.cast(pa.string()),
        pa.array(events.leaves("transaction.id"), pa.string()),
        events.numbers("transaction.total_order").cast(pa.string()),
        events.numbers("transaction.data_collection_order").cast(pa.string()),
    )
    head, *between, end = literals
    events.expect(pc.starts_with(values, head))
    # What the events end with if nothing in them is unusual; the documents are all that is left in front of it.
    events.expect(ends(values, joined(*chain.from_iterable(zip(between, holes, strict=True)), end))[0])
    events.check()
    return events


def _literals(event: bytes) -> list[bytes] | None:
    """The texts before an event's documents, before each hole of its tail, and after the last; None where it is not plain."""
    shape = Shape.of(event)
    if shape is None or shape.names != _EVENT:
        return None
    inner = Shape.of(json_text.members(event)["transaction"])
    if inner is None or inner.names != _TRANSACTION:
        return None
    head, _, source, op, time, transaction, end = shape.literals
    first, total, order, last = inner.literals
    return [head, source, op + b'"', b'"' + time, transaction + first + b'"', b'"' + total, order, last + end]
