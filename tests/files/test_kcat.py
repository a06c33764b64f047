"""Messages in the form of `kcat -J`."""

import json

import pyarrow as pa
import pytest

from changeling.files import kcat
from changeling.model import arrow_layouts
from changeling.model.change import Record
from changeling.model.errors import CannotCarry, Rejected

LINE = (
    rb'{"topic":"shop.users","partition":3,"offset":42,"tstype":"create","ts":1700000000000,"broker":1,'
    rb'"headers":["trace","a\u0001b","empty",null],"key":"{\"id\":1}","payload":"{\"a\":\"\u00e9\\n\"}"}'
)


def test_a_message() -> None:
    message = kcat.parse(LINE)
    headers = (("trace", b"a\x01b"), ("empty", None))
    assert message.record == Record('{"a":"é\\n"}'.encode(), b'{"id":1}', headers, "shop.users")
    assert (message.partition, message.offset) == (3, 42)


@pytest.mark.parametrize(
    ("line", "value", "key"),
    [
        (b'{"topic":"t","key":"k","payload":null}', None, b"k"),
        (b'{"topic":"t","payload":"v"}', b"v", None),
        (b'{"topic":"t","key":null,"value":"v"}', b"v", None),
        (b'{"topic":"t","key":{"id": 1.50},"payload":{"a": [1.0]}}', b'{"a": [1.0]}', b'{"id": 1.50}'),
        (b'{"topic":"t","payload":[1, 2]}', b"[1, 2]", None),
        (b'{"partition":0,"payload":""}', b"", None),
    ],
)
def test_payloads_and_keys(line: bytes, value: bytes | None, key: bytes | None) -> None:
    record = kcat.parse(line).record
    assert (record.value, record.key) == (value, key)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[1]",
        b'{"topic":"t"',
        b'{"topic":"t","key":"k"}',
        b'{"topic":"t","payload":"\xff"}',
        rb'{"topic":"t","payload":"\ud800"}',
        b'{"topic":1,"payload":"x"}',
        b'{"partition":2147483648,"payload":"x"}',
        b'{"offset":-1,"payload":"x"}',
        b'{"topic":"t","headers":["a"],"payload":"x"}',
        b'{"topic":"t","headers":[null,"a"],"payload":"x"}',
        b'{"topic":"t","payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_no_message_is_rejected(line: bytes) -> None:
    with pytest.raises(Rejected, match="not a message in the form of kcat -J"):
        kcat.parse(line)


@pytest.mark.parametrize("line", [b'{"a": 1}', b'{"payload":"x"}', b'{"value":{"b":2},"key":"k"}'])
def test_an_object_that_is_no_message_at_all_is_a_plain_record(line: bytes) -> None:
    assert kcat.parse(line) == kcat.Message(Record(line), None, None)


def batch(*records: Record) -> pa.RecordBatch:
    return arrow_layouts.records_batch(records, pa.nulls(len(records), arrow_layouts.ORIGIN))


def test_what_is_written_is_read_again() -> None:
    records = [
        Record(b'{"a":"\xc3\xa9"}', b'{"id":1}', (("n", b"v"), ("e", None)), "t"),
        Record(None, b"k", (), "t"),
        Record(b"x\ny", None, (), "u"),
        Record(b"", b"", (), None),
    ]
    printer = kcat.Printer()
    lines = [*printer.lines(batch(*records[:1])), *printer.lines(batch(*records[1:]))]
    assert [kcat.parse(line).record for line in lines] == records
    assert [json.loads(line)["offset"] for line in lines] == [0, 1, 0, 0]
    assert list(json.loads(lines[0])) == ["topic", "partition", "offset", "headers", "key", "payload"]
    assert list(json.loads(lines[1])) == ["topic", "partition", "offset", "key", "payload"]


@pytest.mark.parametrize("record", [Record(b"\xff"), Record(b"x", b"\xff"), Record(b"x", None, (("h", b"\xff"),))])
def test_bytes_that_are_no_text_cannot_be_written(record: Record) -> None:
    with pytest.raises(CannotCarry) as caught:
        list(kcat.Printer().lines(batch(record)))
    assert caught.value.feature == "binary"
