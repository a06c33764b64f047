"""Changes that were committed together stay together: three of one transaction, one moving its row, between all dialects."""

import json
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import changeling
from changeling.conformance.cases import CASES, SCHEMA, SHOP, TIME, batch
from changeling.conformance.test_conformance import moves
from changeling.formats import registry
from changeling.formats.capabilities import FEATURES
from changeling.formats.encoding import Encoder, Numbering
from changeling.formats.format import write_options
from changeling.formats.pairing import Pairing
from changeling.formats.transaction_progress import number_of
from changeling.model import arrow_layouts
from changeling.model.change import Change, Transaction
from changeling.model.position import encode as position

FORMATS = registry.names()
ANYTHING = frozenset(FEATURES)
INSERT, MOVE = CASES["insert"], CASES["key change"]


def _in(change: Change, transaction: Transaction | None, place: tuple[int, ...] | None) -> Change:
    return msgspec.structs.replace(
        change, transaction=transaction, position=None if place is None else position(*place), commit_time=TIME
    )


LIKE_XTDB = [
    *(_in(INSERT, Transaction("12350", order, 12350), (12350, order)) for order in range(3)),
    *(_in(INSERT, Transaction("12351", order, 12351), (12351, order)) for order in range(2)),
]
WITH_A_MOVE = [
    _in(INSERT, Transaction("7", 0, 7), (7, 0)),
    _in(MOVE, Transaction("7", 1, 7), (7, 1)),
    _in(INSERT, Transaction("7", 2, 7), (7, 2)),
    _in(INSERT, Transaction("8", 0, 8), (8, 0)),
]
LIKE_YDB = [_in(INSERT, Transaction(number), (1670792400890, int(number))) for number in ("562", "562", "562", "563")]
WITHOUT_PLACES = [_in(INSERT, Transaction(number), None) for number in ("11", "11", "12")]
NAMED = [
    _in(INSERT, Transaction(name, order), (90, at))
    for name, order, at in [("571:90", 1, 91), ("571:90", 1, 92), ("570:95", 1, 96)]
]
MIXED = [
    _in(INSERT, None, None),
    _in(INSERT, Transaction("5"), None),
    _in(INSERT, None, None),
    _in(INSERT, Transaction("6"), None),
]
STREAMS = {
    "like xtdb": LIKE_XTDB,
    "with a move": WITH_A_MOVE,
    "like ydb": LIKE_YDB,
    "without places": WITHOUT_PLACES,
    "named": NAMED,
    "mixed": MIXED,
}


def written(changes: pa.RecordBatch, name: str, size: int) -> pa.Table:
    """The records of changes passed in batches of this size; whatever the format cannot carry is dropped."""
    encoder = Encoder(registry.get(name), write_options(registry.get(name), {"drop": ANYTHING}))
    numbering, made = Numbering(), []
    for start in range(0, changes.num_rows, size):
        part = changes.slice(start, size)
        encoded = encoder(part, numbering)
        assert encoded.rejects.num_rows == 0, encoded.rejects.to_pylist()
        made.append(encoded.records)
        numbering = numbering.after(part, encoded)
    return pa.Table.from_batches(made, arrow_layouts.RECORDS)


def read(records: pa.Table, name: str) -> pa.RecordBatch:
    """The changes of records, halves joined."""
    records = records.drop_columns(["origin"])
    changes, rejects = changeling.decode(records, name, table=SHOP, key="_id", schemas=(SCHEMA,))
    assert rejects.num_rows == 0, rejects.to_pylist()
    pairing = Pairing()
    found = changes.combine_chunks().to_batches()[0]
    return pa.concat_batches([pairing(found), pairing.rest()]) if registry.get(name).halves else found


def events(records: pa.Table) -> list[dict[str, Any]]:
    return [json.loads(value) for value in records["value"].to_pylist()]


def transactions(changes: pa.RecordBatch) -> list[str | None]:
    """The transaction of each row that is written; a moved row counts once."""
    found = [change.transaction for change in arrow_layouts.changes(changes) if change.op != "message"]
    return [None if transaction is None else transaction.id for transaction in found]


def check_xtdb(given: pa.RecordBatch, size: int) -> None:
    """Every event of a transaction has one tx_id, which is its id; orders are 0, 1, 2; order in the output is kept."""
    made = events(written(given, "xtdb", size))
    orders: dict[int, list[int]] = {}
    for event in made:
        transaction = event["transaction"]
        if transaction is not None:
            assert transaction["id"] == str(event["source"]["tx_id"])
            orders.setdefault(event["source"]["tx_id"], []).append(transaction["data_collection_order"])
    for found in orders.values():
        assert found == list(range(len(found)))
    named = [name for name in transactions(given) if name is not None]
    # A row that moves is two events, which are one transaction even where its dialect has none.
    alone = sum(moves(change) for change in arrow_layouts.changes(given) if change.transaction is None)
    assert len(orders) == len(set(named)) + alone
    if not alone and all(number_of(name, 2**63) is not None for name in named):
        assert list(orders) == [int(name) for name in dict.fromkeys(named)]


def check_ydb(given: pa.RecordBatch, size: int) -> None:
    """One transaction is one pair of step and txId, another is another, and a later one is a greater one."""
    changes = [change for change in arrow_layouts.changes(given) if change.op != "message"]
    records = written(given, "ydb-debezium", size)
    origins = [origin["record"] for origin in given["origin"].to_pylist()]
    by_record: dict[int, set[tuple[int, int]]] = {}
    for event, origin in zip(events(records), records["origin"].to_pylist(), strict=True):
        source = event["payload"]["source"]
        by_record.setdefault(origin["record"], set()).add((source["step"], source["txId"]))
    groups: dict[str, set[tuple[int, int]]] = {}
    for place, (change, record) in enumerate(zip(changes, origins, strict=False)):
        groups.setdefault(change.transaction.id if change.transaction else f"alone {place}", set()).update(
            by_record[record]
        )
    pairs = [next(iter(found)) for found in groups.values() if len(found) == 1]
    assert len(pairs) == len(groups), groups
    assert all(one < other for one, other in pairwise(pairs)), pairs


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize(
    ("stream", "through"),
    # What has neither transaction nor place gets a place from most dialects, which is of another kind than a transaction's.
    [(stream, through) for stream in STREAMS for through in (None, *FORMATS) if stream != "mixed" or through is None],
)
def test_a_transaction_stays_one(stream: str, through: str | None, size: int) -> None:
    """As the dialect `through` reads it, into XTDB and into YDB, in batches of any size."""
    given = batch(STREAMS[stream])
    if through is not None:
        given = read(written(given, through, 100), through)
        given = given.filter(pa.array([op != "message" for op in given["op"].to_pylist()]))
    if through != "xtdb":
        check_xtdb(given, size)
    if through != "ydb-debezium":
        check_ydb(given, size)


def test_a_lone_change_of_dataworks_is_the_first_of_its_transaction() -> None:
    line = (
        '{"_sequence_id_":"17","_operation_type_":"I","_execute_time_":1700000000000,"_before_image_":"N",'
        '"_after_image_":"Y","id":1}'
    )
    changes, _ = changeling.decode([line], "dataworks", table="t", key="id")
    records, _ = changeling.encode(changes, "xtdb", drop=ANYTHING)
    event = events(records)[0]
    assert event["source"]["tx_id"] == 17
    assert event["transaction"] == {"id": "17", "total_order": 17, "data_collection_order": 0}


def test_a_total_that_nobody_declared_is_refused_by_name() -> None:
    _, rejects = changeling.encode(batch(LIKE_YDB), "xtdb", drop={"position"})
    assert set(rejects["feature"].to_pylist()) == {"transaction"}
    assert "total_order" in rejects["reason"][0].as_py()


def test_what_declares_all_of_its_place_needs_no_leave() -> None:
    records, rejects = changeling.encode(batch(LIKE_XTDB), "xtdb")
    assert rejects.num_rows == 0
    assert [(e["source"]["tx_id"], e["transaction"]["data_collection_order"]) for e in events(records)] == [
        (12350, 0),
        (12350, 1),
        (12350, 2),
        (12351, 0),
        (12351, 1),
    ]


def test_both_events_of_a_moved_row_have_places_of_their_own() -> None:
    records, _ = changeling.encode(batch(WITH_A_MOVE), "xtdb", drop={"position", "transaction"})
    found = [
        (e["op"], e["source"]["tx_id"], e["transaction"]["data_collection_order"], e["transaction"]["total_order"])
        for e in events(records)
    ]
    assert found == [("c", 7, 0, 7), ("d", 7, 1, 7), ("c", 7, 2, 7), ("c", 7, 3, 7), ("c", 8, 0, 8)]
    for drop, feature, record in (((), "position", 1), (("position",), "transaction", 2)):
        (row,) = changeling.encode(batch(WITH_A_MOVE), "xtdb", drop=drop)[1].to_pylist()
        assert (row["feature"], row["origin"]["record"]) == (feature, record)


def test_debezium_counts_both_events_of_a_moved_row() -> None:
    records, rejects = changeling.encode(batch(WITH_A_MOVE), "debezium-json", keyed=True)
    assert rejects.num_rows == 0
    transactions = [event["transaction"] for event in events(records.filter(pc.is_valid(records["value"])))]
    assert [(found["id"], found["data_collection_order"]) for found in transactions] == [
        ("7", 0),
        ("7", 1),
        ("7", 2),
        ("7", 3),
        ("8", 0),
    ]


def test_a_moved_row_without_a_transaction_is_one() -> None:
    records, rejects = changeling.encode(batch([INSERT, MOVE]), "xtdb")
    assert rejects.num_rows == 0
    assert [(e["source"]["tx_id"], e["transaction"]) for e in events(records)] == [
        (1, None),
        (2, {"id": "2", "total_order": 2, "data_collection_order": 0}),
        (2, {"id": "2", "total_order": 2, "data_collection_order": 1}),
    ]
