"""Changes are encoded some at a time: numbers, counts and partitions continue over all of them."""

import pytest

from changeling.feeds import encode
from changeling.feeds.completion import Completed
from changeling.feeds.encode import FeedEncoder, ToPublish
from changeling.feeds.point_changes import Stamp, Stamped
from changeling.formats.format import Counts
from changeling.model.operation import Operation
from changeling.replicas.shape import Columns, ReplicaColumn, Shape
from tests.feeds.topics import feed

SHAPE = Shape((ReplicaColumn("1", "id", "int64"), ReplicaColumn("2", "n", "int64")), ("1",))
FORMATS = ("dataworks", "arcion-json", "debezium-json", "xtdb", "ydb-json", "ydb-dynamodb")


def change(number: int) -> ToPublish:
    key, new, old = number % 4, b"%d" % number, b"%d" % (number - 4)
    before = None if number < 4 else {"1": b"%d" % key, "2": old}
    op = Operation.INSERT if before is None else Operation.UPDATE
    made = Completed(f"[{key}]", op, before, {"1": b"%d" % key, "2": new}, number)
    # Three changes a transaction, which may be divided.
    stamp = Stamped(Stamp(1_700_000_000_000 + number // 3, number // 3), number // 3, number % 3)
    return ToPublish(made, stamp, stamp.stamp.step * 1_000_000, user=f"user {number}")


@pytest.mark.parametrize("format", FORMATS)
def test_slices_make_the_same_records(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of = feed(format=format, mode="NEW_AND_OLD_IMAGES", partitions=2, user_sids=format.startswith("ydb-"))
    changes = [change(number) for number in range(11)]
    whole = FeedEncoder(of, Columns(), SHAPE, None).encode(changes, "pg", Counts(insert=5), 100)
    monkeypatch.setattr(encode, "SLICE", 4)
    parts = FeedEncoder(of, Columns(), SHAPE, None).encode(changes, "pg", Counts(insert=5), 100)
    assert (parts.counts, parts.changes) == (whole.counts, whole.changes) == (Counts(insert=9, update=7), 111)
    for partition in (0, 1):
        own = [[row for row in made.records.to_pylist() if row["partition"] == partition] for made in (whole, parts)]
        assert own[0] == own[1] != []
    assert whole.rejects.num_rows == parts.rejects.num_rows == 0


@pytest.mark.parametrize(
    ("format", "kind", "number", "spelled"),
    [
        ("ydb-json", "decimal(10,2)", "100.50", '"100.5"'),
        ("ydb-json", "decimal(10,2)", "100.00", '"100"'),
        ("ydb-json", "decimal(10,0)", "100", '"100"'),
        ("ydb-json", "decimal", "-100.50", '"-.1005e3"'),
        ("debezium-json", "decimal(10,2)", "100.50", '"100.50"'),
    ],
)
def test_numbers_are_spelled_as_the_dialect_does(format: str, kind: str, number: str, spelled: str) -> None:
    shape = Shape((ReplicaColumn("1", "id", "int64"), ReplicaColumn("2", "n", kind)), ("1",))
    row = {"1": b"7", "2": f'"{number}"'.encode()}
    one = ToPublish(Completed("[7]", Operation.INSERT, None, row, 0), Stamped(Stamp(1_700_000_000_000, 1), 1, 0))
    of = feed(format=format, mode="NEW_AND_OLD_IMAGES")
    made = FeedEncoder(of, Columns(), shape, None).encode([one], "pg", Counts(), 0)
    assert f'"n":{spelled}'.encode() in made.records["value"][0].as_py()
