"""XTDB's plain events, a batch at a time: the quick path for what topics really contain.

It gives exactly what `decode` gives record by record, or nothing: one record that is not plain sends its batch the slow path.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.formats.format import DecodeBatch
from changeling.formats.xtdb.decode import XtdbRead
from changeling.formats.xtdb.envelope import OPERATIONS, DocumentId, Envelope, Source, in_order
from changeling.model import json_text, layout
from changeling.model.errors import Rejected
from changeling.model.operation import Image
from changeling.model.table import TableName

_envelopes = msgspec.json.Decoder(Envelope).decode_lines
_sources = msgspec.json.Decoder(Source).decode_lines
_ids = msgspec.json.Decoder(DocumentId).decode_lines
_LENGTHS = pa.array([f"{digits:02d}" for digits in range(100)], pa.string())
_INTEGER = r"^(0|-?[1-9][0-9]*)$"
_OPS = {letter: operation.value for letter, operation in OPERATIONS.items()}


Item = TypeVar("Item")


class _NotPlain(Exception):
    """The batch takes the slow path."""


def batch_decoder(options: XtdbRead) -> DecodeBatch | None:
    """A function from a batch of records to its changes, or to None where they are not all plain."""
    if options.key not in ((), ("_id",)):
        return None

    def decode(batch: pa.RecordBatch, source: str) -> pa.RecordBatch | None:
        values = batch.column("value")
        if values.null_count or not len(values):
            return None
        try:
            return _changes(values, batch.column("origin"), source, options)
        except (_NotPlain, msgspec.DecodeError, Rejected, pa.ArrowInvalid, UnicodeError, RecursionError, OverflowError):
            return None

    return decode


def _lines(values: pa.Array) -> memoryview:
    """All records as lines of one text, joined without creating objects."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return memoryview(pc.binary_join(whole, b"\n")[0].as_buffer())


def _changes(values: pa.Array, origin: pa.Array, source: str, options: XtdbRead) -> pa.RecordBatch:
    count = len(origin)
    events = _all(_envelopes(_lines(values)), count)
    raw_sources = [bytes(event.source) for event in events]
    if not all(map(in_order, values.to_pylist(), raw_sources)):
        raise _NotPlain
    sources = _all(_sources(b"\n".join(raw_sources)), count)
    letters = [event.op for event in events]
    before_texts, after_texts = [event.before for event in events], [event.after for event in events]
    times = [event.ts_ms for event in events]
    if not _OPS.keys() >= set(letters) or None in times or times != [found.ts_ms for found in sources]:
        raise _NotPlain
    deletes = [letter == "d" for letter in letters]
    if deletes != [after is None for after in after_texts]:
        raise _NotPlain
    rows = [before if event is None else event for event, before in zip(after_texts, before_texts, strict=True)]
    if None in rows:
        raise _NotPlain
    keys = _keys(rows)  # type: ignore[arg-type]  # None was looked for
    _check_documents(
        [text for delete, text in zip(deletes, before_texts, strict=True) if text is not None and not delete]
    )
    _check_depth([*before_texts, *after_texts])
    befores, afters = pa.array(before_texts, pa.string()), pa.array(after_texts, pa.string())
    tables, places = _tables([(found.db, found.table) for found in sources])
    orders = pa.array([event.transaction.data_collection_order for event in events], pa.int64())
    ops = pa.array([_OPS[letter] for letter in letters], pa.string())
    alone = pc.fill_null(pc.and_(pc.equal(ops, "delete"), pc.equal(befores, keys)), False)
    columns = [
        pa.repeat(pa.scalar(source, pa.string()), count),
        layout.tables_array(tables).take(places),
        ops,
        keys,
        befores,
        afters,
        pc.if_else(alone, Image.KEY.value, _image(befores)),
        _image(afters),
        pa.repeat(pa.scalar("xtdb", pa.string()), count),
        _positions(pa.array([found.tx_id for found in sources], pa.int64()), orders),
        pc.multiply_checked(pa.array(times, pa.int64()), 1_000_000),
        pa.StructArray.from_arrays(
            [
                pa.array([event.transaction.id for event in events], pa.string()),
                orders,
                pa.array([event.transaction.total_order for event in events], pa.int64()),
                pa.nulls(count, pa.bool_()),
            ],
            fields=list(layout.TRANSACTION),
        ),
        pa.nulls(count, pa.int64()),
        origin,
        pc.binary_join_element_wise(b'{"source":', pa.array(raw_sources, pa.binary()), b"}", b"").cast(pa.string()),
        pa.array([_schema(options, table) for table in tables], pa.string()).take(places),
        pa.repeat(pa.scalar(False), count),
    ]
    return pa.record_batch(columns, schema=layout.CHANGES)


def _all(found: list[Item], count: int) -> list[Item]:
    if len(found) != count:
        raise _NotPlain
    return found


def _keys(rows: list[str]) -> pa.Array:
    found = _all(_ids("\n".join(rows)), len(rows))
    try:
        ids = pa.array([bytes(each.id) for each in found], pa.string())  # type: ignore[arg-type]
    except TypeError:
        raise _NotPlain from None
    texts = pc.starts_with(ids, '"')
    if pc.any(pc.match_substring(ids, "\\")).as_py():
        raise _NotPlain
    if (
        not pc.all(texts).as_py()
        and not pc.all(pc.match_substring_regex(ids.filter(pc.invert(texts)), _INTEGER)).as_py()
    ):
        raise _NotPlain
    return pc.binary_join_element_wise('{"_id":', ids, "}", "")


def _check_documents(texts: list[str]) -> None:
    if texts:
        _all(_ids("\n".join(texts)), len(texts))


def _check_depth(texts: Sequence[str | None]) -> None:
    for text in texts:
        if text is not None and len(text) > 2 * json_text.DEPTH_LIMIT:
            json_text.check_depth(text.encode())


def _tables(names: list[tuple[str | None, str | None]]) -> tuple[list[TableName], pa.Array]:
    """The distinct tables, and which of them each event belongs to."""
    distinct = {name: place for place, name in enumerate(dict.fromkeys(names))}
    tables = [TableName(catalog, None, table) for catalog, table in distinct if table is not None]
    if len(tables) < len(distinct):
        raise _NotPlain
    return tables, pa.array([distinct[name] for name in names], pa.int32())


def _image(documents: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(documents), Image.FULL.value, Image.NONE.value)


def _positions(numbers: pa.Array, orders: pa.Array) -> pa.Array:
    parts: list[pa.Array | str] = []
    for column in (numbers, orders):
        if pc.min(column).as_py() < 0:
            raise _NotPlain
        digits = column.cast(pa.string())
        parts += [_LENGTHS.take(pc.utf8_length(digits)), digits, "."]
    return pc.binary_join_element_wise(*parts[:-1], "")


def _schema(options: XtdbRead, table: TableName) -> str | None:
    schema = options.schema_of(table)
    return None if schema is None else schema.to_json()
