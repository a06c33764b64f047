"""Changes that every format is put through: what dialects disagree about, one idea a case, in the canonical convention."""

from collections.abc import Sequence

import pyarrow as pa

from changeling.model import arrow_layouts
from changeling.model.change import Change, Transaction
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position
from changeling.model.table import Column, TableName, TableSchema

SHOP = TableName("shop", None, "orders")
TYPES = {
    "flag": "bool",
    "tiny": "int8",
    "count": "int32",
    "big": "int64",
    "huge": "uint64",
    "ratio": "float64",
    "price": "decimal(38,10)",
    "name": "string",
    "payload": "bytes",
    "day": "date",
    "at": "timestamptz",
    "took": "duration",
    "ref": "uuid",
    "doc": "json",
    "tags": "array<string>",
}
SCHEMA = TableSchema((Column("_id", "string"), *(Column(name, kind) for name, kind in TYPES.items())), ("_id",))
ROW = (
    '{"_id":"o-1","flag":true,"tiny":-128,"count":2147483647,"big":-9223372036854775808,"huge":18446744073709551615,'
    '"ratio":0.1,"price":"1234567890123456789012345678.0123456789","name":"Zoë \\"quoted\\", line\\nbreak","payload":"AQID/w==",'
    '"day":"2020-02-29","at":"2023-12-25T10:15:30.123Z","took":"PT2H30M","ref":"550e8400-e29b-41d4-a716-446655440000",'
    '"doc":{"a":[1,2.50,null],"b":{"c":"d"}},"tags":["x","","null"]}'
)
_NAME = '"name":"Zoë \\"quoted\\", line\\nbreak"'
LATER = ROW.replace('"flag":true', '"flag":false').replace("PT2H30M", "PT1S")
NULLS = '{"_id":"o-1",' + ",".join(f'"{name}":null' for name in TYPES) + "}"
KEY = '{"_id":"o-1"}'
TIME = 1_703_505_330_123_000_000
MILLIS = TIME // 1_000_000


def _change(op: Operation, **parts: object) -> Change:
    fields = {"table": SHOP, "key": KEY, "schema": SCHEMA.to_json(), **parts}
    return Change(op=op, **fields)  # type: ignore[arg-type]


def _after(op: Operation, text: str, **parts: object) -> Change:
    return _change(op, after=text, after_image=Image.FULL, **parts)


FULL_BEFORE = {"before": ROW, "before_image": Image.FULL}
PARTIAL = {"after": '{"count":7,"name":null}', "after_image": Image.PARTIAL}

CASES: dict[str, Change] = {
    "insert": _after(Operation.INSERT, ROW),
    "insert of nulls": _after(Operation.INSERT, NULLS),
    "read": _after(Operation.READ, ROW),
    "update with both images": _after(Operation.UPDATE, LATER, **FULL_BEFORE),
    "update without before": _after(Operation.UPDATE, LATER),
    "upsert": _after(Operation.UPSERT, ROW),
    "replace": _after(Operation.REPLACE, ROW),
    "partial update": _change(Operation.UPDATE, **PARTIAL),
    "partial upsert": _change(Operation.UPSERT, **PARTIAL),
    "partial update with before": _change(Operation.UPDATE, **PARTIAL, **FULL_BEFORE),
    "delete with before": _change(Operation.DELETE, **FULL_BEFORE),
    "delete by key": _change(Operation.DELETE, before=KEY, before_image=Image.KEY),
    "delete without image": _change(Operation.DELETE),
    "key alone": _change(Operation.UPSERT),
    "keyless insert": _after(Operation.INSERT, ROW, key=None),
    "key change": _after(
        Operation.UPDATE, ROW.replace('"_id":"o-1"', '"_id":"o-2"'), key='{"_id":"o-2"}', **FULL_BEFORE
    ),
    "key change shown by the key alone": _after(
        Operation.UPDATE,
        ROW.replace('"_id":"o-1"', '"_id":"o-2"'),
        key='{"_id":"o-2"}',
        before=KEY,
        before_image=Image.KEY,
    ),
    "key change of part of the row": _change(
        Operation.UPDATE,
        before='{"_id":"o-0"}',
        before_image=Image.KEY,
        after='{"_id":"o-1","count":7,"name":null}',
        after_image=Image.PARTIAL,
    ),
    "composite key": _change(
        Operation.UPDATE,
        key='{"_id":"o-1","big":5}',
        after='{"_id":"o-1","big":5,"name":"x"}',
        after_image=Image.FULL,
        schema=TableSchema(
            (Column("_id", "string"), Column("big", "int64"), Column("name", "string")), ("_id", "big")
        ).to_json(),
    ),
    "transaction": _after(
        Operation.INSERT,
        ROW,
        position=position(12350, 2),
        commit_time=TIME,
        transaction=Transaction("12350", 2, 12350),
    ),
    "commit time alone": _after(Operation.INSERT, ROW, commit_time=TIME),
    "whole second": _after(Operation.INSERT, ROW, commit_time=TIME // 10**9 * 10**9),
    "position without a time": _after(Operation.INSERT, ROW, position=position(12350, 0)),
    "nanoseconds": _after(Operation.INSERT, ROW, commit_time=TIME + 1),
    "position of two parts": _after(
        Operation.INSERT, ROW, position=position(MILLIS, 562949953607163), commit_time=TIME
    ),
    "position of three parts": _after(Operation.INSERT, ROW, position=position(10, 7461, 1), commit_time=TIME),
    "table with a schema": _after(Operation.INSERT, ROW, table=TableName("shop", "public", "orders")),
    "table by name alone": _after(Operation.INSERT, ROW, table=TableName(None, None, "orders")),
    "text null": _after(Operation.INSERT, ROW.replace(_NAME, '"name":"null"')),
    "truncate": _change(Operation.TRUNCATE, key=None),
    "begin": _change(
        Operation.BEGIN, key=None, table=None, schema=None, transaction=Transaction("7"), commit_time=TIME
    ),
    "commit": _change(
        Operation.COMMIT,
        key=None,
        table=None,
        schema=None,
        transaction=Transaction("7", complete=True),
        commit_time=TIME,
    ),
    "barrier": _change(Operation.BARRIER, key=None, schema=None, position=position(MILLIS, 0), commit_time=TIME),
    "ddl": _change(Operation.DDL, key=None, meta='{"statement":"ALTER TABLE orders ADD COLUMN x int"}'),
    "message": _change(Operation.MESSAGE, key=None, table=None, schema=None, meta='{"prefix":"audit","content":"hi"}'),
}


def batch(changes: Sequence[Change], encoding: str = "canonical", source: str = "conformance") -> pa.RecordBatch:
    """A batch of these changes, as if each had come from a record of one file."""
    places = [
        {"file": "cases.json", "ordinal": 3, "record": number, "topic": None, "partition": None, "offset": None}
        for number in range(len(changes))
    ]
    filled = []
    for number, change in enumerate(changes):
        copy = Change(**{name: getattr(change, name) for name in change.__struct_fields__})
        copy.position, copy.arrived = change.position or position(3, number), change.position is None
        filled.append(copy)
    return arrow_layouts.changes_batch(filled, pa.array(places, arrow_layouts.ORIGIN), source, encoding)
