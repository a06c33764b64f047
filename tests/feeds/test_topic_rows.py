"""Records on their way into a topic: every partition counts on from its next offset, and keeps their order."""

from datetime import UTC, datetime

import pyarrow as pa

from changeling.feeds.topic import COLUMNS, RECORDS, in_every_partition, rows_of

NOON = datetime(2024, 1, 2, 12, tzinfo=UTC)
HEADERS = [{"name": "h", "value": b"1"}]


def records(*given: tuple[int, bytes]) -> pa.Table:
    rows = [
        {"partition": partition, "key": b"k", "value": value, "headers": HEADERS if value == b"a" else None}
        for partition, value in given
    ]
    return pa.Table.from_pylist(rows, RECORDS)


def row(partition: int, offset: int, key: bytes | None, value: bytes) -> dict[str, object]:
    headers = HEADERS if value == b"a" else None
    place = {"partition": partition, "offset": offset, "key": key, "value": value, "headers": headers}
    return {**place, "published_at": NOON, "point": 7}


def test_offsets_of_several_partitions() -> None:
    given = records((2, b"c"), (0, b"a"), (2, b"b"), (0, b"d"), (0, b"c"))
    both = pa.concat_tables([in_every_partition(b"first", 3), given, in_every_partition(b"last", 3)])
    rows, ends = rows_of(both, [5, 0, 9], NOON, 7)
    assert rows.schema == COLUMNS
    assert rows.to_pylist() == [
        row(0, 5, None, b"first"),
        row(0, 6, b"k", b"a"),
        row(0, 7, b"k", b"d"),
        row(0, 8, b"k", b"c"),
        row(0, 9, None, b"last"),
        row(1, 0, None, b"first"),
        row(1, 1, None, b"last"),
        row(2, 9, None, b"first"),
        row(2, 10, b"k", b"c"),
        row(2, 11, b"k", b"b"),
        row(2, 12, None, b"last"),
    ]
    assert ends == [10, 2, 13]


def test_nothing_and_one_partition() -> None:
    assert rows_of(RECORDS.empty_table(), [4, 2], NOON, 7) == (COLUMNS.empty_table(), [4, 2])
    rows, ends = rows_of(records((0, b"a"), (0, b"b")), [3], NOON, 7)
    assert rows.to_pylist() == [row(0, 3, b"k", b"a"), row(0, 4, b"k", b"b")]
    assert ends == [5]
