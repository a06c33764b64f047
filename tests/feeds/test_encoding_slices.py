"""Changes are encoded some at a time: numbers, counts and partitions continue over all of them."""

import pytest

from changeling.feeds import encode
from changeling.feeds.completion import Completed
from changeling.feeds.encode import FeedEncoder, Outgoing
from changeling.feeds.point_changes import Stamp, Stamped
from changeling.formats.format import Counts
from changeling.model.operation import Operation
from changeling.replicas.shape import Columns, ReplicaColumn, Shape
from tests.feeds.topics import feed

SHAPE = Shape((ReplicaColumn("1", "id", "int64"), ReplicaColumn("2", "n", "int64")), ("1",))
FORMATS = ("dataworks", "arcion-json", "debezium-json", "xtdb", "ydb-json", "ydb-dynamodb")


def change(number: int) -> Outgoing:
    key, new, old = number % 4, b"%d" % number, b"%d" % (number - 4)
    before = None if number < 4 else {"1": b"%d" % key, "2": old}
    op = Operation.INSERT if before is None else Operation.UPDATE
    made = Completed(f"[{key}]", op, before, {"1": b"%d" % key, "2": new}, number)
    # Three changes a transaction, which may be divided.
    stamp = Stamped(Stamp(1_700_000_000_000 + number // 3, number // 3), number // 3, number % 3)
    return Outgoing(made, stamp, stamp.stamp.step * 1_000_000, user=f"user {number}")


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
