"""The quick way for plain batches gives exactly what the way record by record gives, or leaves the batch to it."""

import json
from typing import Any

import pytest

import changeling
from bench.events import events
from changeling.formats import registry
from changeling.formats.decoding import Decoder
from changeling.formats.user_options import read_options
from tests.formats.test_xtdb import CREATE, event
from tests.golden.test_golden import CASES, records_of

FORM = registry.get("xtdb")
PLAIN = [json.loads(line) for line in events(300)]


def both_ways(records: list[Any], **options: Any) -> tuple[Any, Any]:
    """The changes of the quick way (None where it leaves them) and those of the other one."""
    given = read_options(FORM, options)
    slow = Decoder(FORM, given)
    slow._decode_batch = None
    changes, rejects = changeling.decode(records, "xtdb", **options)
    batch = _batch(records)
    expected = slow(batch)
    assert changes.combine_chunks().to_batches() == [expected.changes] or changes.num_rows == 0
    assert rejects.num_rows == expected.rejects.num_rows
    assert FORM.batch_decoder is not None
    quick = FORM.batch_decoder(given)
    return (None if quick is None else quick(batch, "xtdb")), expected.changes


def _batch(records: list[Any]) -> Any:
    from changeling.api import _batches

    (batch,) = _batches(records)
    return batch


def test_plain_events_go_the_quick_way_and_come_out_the_same() -> None:
    quick, slow = both_ways([json.dumps(each) for each in PLAIN])
    assert quick is not None
    assert quick.equals(slow)


def test_the_schema_is_told_there_too() -> None:
    quick, slow = both_ways([CREATE] * 3, columns="_id:string,age:int32")
    assert quick is not None
    assert quick.equals(slow)
    assert quick.column("schema").null_count == 0


@pytest.mark.parametrize("case", [case for case in CASES if case.parent.name == "xtdb"], ids=lambda case: case.name)
def test_golden_records_are_the_same_either_way(case: Any) -> None:
    quick, slow = both_ways(records_of(case))
    assert quick is None or quick.equals(slow)


@pytest.mark.parametrize(
    "odd",
    [
        "{",
        event(op="x"),
        event(after=None),
        event(after="{"),
        event(after="{}"),
        event(after='{"_id":1.0}'),
        event(after='{"_id":"\\u0041"}'),
        event(after='{"_id":-0}'),
        event(after='{"_id":1,"x":' + "[" * 600 + "]" * 600 + "}"),
        event(before="nonsense", op="u"),
        event(ts_ms=1),
        event(source={"tx_id": 7, "ts_ms": 1703505330123}),
        event(source={"tx_id": -7, "ts_ms": 1703505330123, "table": "t"}),
        event(transaction=None),
        event(extra=1),
    ],
)
def test_one_odd_record_sends_its_batch_the_other_way(odd: Any) -> None:
    text = odd if isinstance(odd, str) else json.dumps(odd)
    quick, _ = both_ways([CREATE, text, CREATE])
    assert quick is None


def test_integers_and_deletes_by_key_are_plain() -> None:
    deleted = event(op="d", before='{"_id":5}', after=None)
    quick, slow = both_ways([json.dumps(event(after='{"_id":5}')), json.dumps(deleted)])
    assert quick is not None
    assert quick.equals(slow)
    assert quick.column("before_image").to_pylist() == ["none", "key"]
