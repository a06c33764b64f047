"""Files into batches of records and rejects, and back."""

import gzip
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest

from changeling.files.output import Output
from changeling.files.paths import expand, total_bytes
from changeling.files.reading import Batch, Carrier, read
from changeling.files.writing import write
from changeling.formats.framing import HEADER, CsvRows, Framing, JsonOrCsv, JsonValues
from changeling.model import arrow_layouts
from changeling.model.change import Origin, Record
from changeling.model.errors import LossError


def values(batches: list[Batch]) -> list[bytes]:
    return [value for batch in batches for value in batch.records.column("value").to_pylist()]


def test_records_and_their_origins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b.json").write_bytes(b'{"a":1}\n{"b":2}\n')
    Path("a.json").write_bytes(gzip.compress(b'[{"c":3}]'))
    places = expand(["b.json", "a.json"])
    (batch,) = read(places, framing=JsonValues())
    batch.records.validate(full=True)
    assert batch.records.schema == arrow_layouts.RECORDS
    assert batch.rejects.schema == arrow_layouts.REJECTS
    assert arrow_layouts.records(batch.records) == [Record(b'{"a":1}'), Record(b'{"b":2}'), Record(b'{"c":3}')]
    assert arrow_layouts.origins(batch.records) == [
        Origin("b.json", 0, 0),
        Origin("b.json", 0, 1),
        Origin("a.json", 1, 0),
    ]
    assert batch.bytes_read == total_bytes(places)


def test_no_records(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert list(read(expand([str(tmp_path)]), framing=JsonValues())) == []
    (tmp_path / "blank").write_bytes(b"\n\n")
    (batch,) = read(expand([str(tmp_path)]), framing=JsonValues())
    assert (batch.records.num_rows, batch.rejects.num_rows, batch.bytes_read) == (0, 0, 2)


@pytest.mark.parametrize(
    ("framing", "text", "expected"),
    [
        (JsonValues(), b"[1,2]\n", [b"1", b"2"]),
        (JsonValues(arrays=False), b"[1,2]\n[3]\n", [b"[1,2]", b"[3]"]),
        (CsvRows(header=False), b'a,"b\nc"\n', [b'a,"b\nc"']),
        (CsvRows(";", "'", header=False), b"a;'b\nc'\n", [b"a;'b\nc'"]),
    ],
)
def test_framings(tmp_path: Path, framing: Framing, text: bytes, expected: list[bytes]) -> None:
    (tmp_path / "x").write_bytes(text)
    assert values(list(read(expand([str(tmp_path)]), framing=framing))) == expected


def test_batches_are_bounded_and_numbered_through(tmp_path: Path) -> None:
    rows = [b'{"id":%d}' % number for number in range(1000)]
    (tmp_path / "x").write_bytes(b"\n".join(rows))
    places = expand([str(tmp_path)])
    by_rows = list(read(places, framing=JsonValues(), batch_rows=64))
    assert values(by_rows) == rows
    assert max(batch.records.num_rows for batch in by_rows) == 64
    by_bytes = list(read(places, framing=JsonValues(), batch_bytes=100))
    assert values(by_bytes) == rows
    assert max(sum(map(len, batch.records.column("value").to_pylist())) for batch in by_bytes) <= 100
    for batches in (by_rows, by_bytes):
        numbers = [origin.record for batch in batches for origin in arrow_layouts.origins(batch.records)]
        assert numbers == list(range(1000))
        assert sum(batch.bytes_read for batch in batches) == total_bytes(places)


def test_many_small_files_make_few_batches(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number:03}").write_bytes(b'{"id":%d}\n' % number)
    (batch,) = read(expand([str(tmp_path)]), framing=JsonValues())
    assert [origin.ordinal for origin in arrow_layouts.origins(batch.records)] == list(range(100))


@pytest.mark.parametrize("carrier", ["plain", "kcat"])
def test_a_record_over_the_limit_is_a_reject(tmp_path: Path, carrier: Carrier) -> None:
    large = b'{"payload":"' + b"x" * 5000 + b'"}'
    (tmp_path / "x").write_bytes(b'{"payload":"1"}\n' + large + b'\n{"payload":"2"}\n')
    (batch,) = read(expand([str(tmp_path)]), framing=JsonValues(), carrier=carrier, size_limit=2000)
    assert [origin.record for origin in arrow_layouts.origins(batch.records)] == [0, 2]
    (reject,) = batch.rejects.to_pylist()
    assert reject["origin"]["record"] == 1
    assert reject["raw"] == large[:1024]
    assert reject["reason"] == (
        "the record has 5,014 bytes, over the limit of 2,000 (record_bytes); the first 1,024 are kept"
    )


def test_a_damaged_gzip_gives_its_good_records_and_a_reject(tmp_path: Path) -> None:
    rows = [b'{"id":%d}' % number for number in range(10_000)]
    packed = gzip.compress(b"\n".join(rows))
    (tmp_path / "a.gz").write_bytes(packed[:-2000])
    (tmp_path / "b").write_bytes(b"{}")
    (batch,) = read(expand([str(tmp_path)]), framing=JsonValues(), batch_rows=1_000_000)
    found = values([batch])
    assert found[:-2] == rows[: len(found) - 2]
    assert found[-1] == b"{}"
    (reject,) = batch.rejects.to_pylist()
    assert reject["reason"] == "the gzip stream ends too early"
    assert reject["origin"]["record"] == len(found) - 1


def test_kcat_messages(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(
        b'{"topic":"t","partition":1,"offset":7,"headers":["h","v"],"key":"k","payload":"{}"}\n'
        b"garbage\n"
        b'{"topic":"t","partition":1,"offset":8,"key":"k","payload":null}\n'
    )
    (batch,) = read(expand([str(tmp_path)]), framing=CsvRows(), carrier="kcat")
    file = str(tmp_path / "x")
    assert arrow_layouts.records(batch.records) == [
        Record(b"{}", b"k", (("h", b"v"),), "t"),
        Record(None, b"k", (), "t"),
    ]
    assert arrow_layouts.origins(batch.records) == [Origin(file, 0, 0, "t", 1, 7), Origin(file, 0, 2, "t", 1, 8)]
    (reject,) = batch.rejects.to_pylist()
    assert (reject["raw"], reject["origin"]["record"]) == (b"garbage", 1)
    assert reject["reason"].startswith("not a message")


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "x.gz", "wb", compresslevel=1) as out:
        for _ in range(100):
            out.write(
                b'{"id":1,"name":"' + b"x" * 84 + b'"}\n' * 1 + (b'{"id":1,"name":"' + b"x" * 84 + b'"}\n') * 9_999
            )
    tracemalloc.start()
    try:
        count = sum(batch.records.num_rows for batch in read(expand([str(tmp_path)]), framing=JsonValues()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 1_000_000
    assert peak < 60_000_000


def batch_of(*records: Record) -> pa.RecordBatch:
    return arrow_layouts.records_batch(records, pa.nulls(len(records), arrow_layouts.ORIGIN))


@pytest.mark.parametrize("carrier", ["plain", "kcat"])
def test_what_is_written_is_read_again(tmp_path: Path, carrier: Carrier) -> None:
    path = str(tmp_path / "out.gz")
    with Output(path) as out:
        write([batch_of(Record(b'{"a":1}')), batch_of(), batch_of(Record(b'{"b":1.50}'))], out, carrier)
    assert values(list(read(expand([path]), framing=JsonValues(), carrier=carrier))) == [b'{"a":1}', b'{"b":1.50}']


def test_plain_json_is_one_line_a_value(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with Output(str(path)) as out:
        write([batch_of(Record(b'{\n "b": 1.50,\n "a": "\\n"\n}'), Record(b'{"c": 1}'))], out)
    assert path.read_bytes() == b'{"b":1.50,"a":"\\n"}\n{"c": 1}\n'
    with Output(str(path)) as out:
        write([batch_of(Record(b'1,"x\ny"'), Record(b"2,z"))], out)
    assert path.read_bytes() == b'1,"x\ny"\n2,z\n'


A, B = ((HEADER, b"a"),), ((HEADER, b"b"),)


@pytest.mark.parametrize("records", [[Record(None, b"k")], [Record(b"1", headers=A), Record(b"2", headers=B)]])
def test_what_a_plain_file_cannot_hold(tmp_path: Path, records: list[Record]) -> None:
    with pytest.raises(LossError), Output(str(tmp_path / "out")) as out:
        write([batch_of(record) for record in records], out)
    assert list(tmp_path.iterdir()) == []


def test_the_header_of_a_file_stands_once_at_its_top_and_belongs_to_every_record(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    records = [Record(b"1,x", headers=((HEADER, b"a,b"),)), Record(b'2,"y\nz"', headers=((HEADER, b"a,b"),))]
    with Output(str(path)) as out:
        write([batch_of(record) for record in records], out)
    assert path.read_bytes() == b'a,b\n1,x\n2,"y\nz"\n'
    (tmp_path / "second.csv").write_bytes(b"c\n3\n")
    (batch,) = read(expand([str(tmp_path)]), framing=CsvRows())
    assert arrow_layouts.records(batch.records) == [*records, Record(b"3", headers=((HEADER, b"c"),))]
    assert [origin.record for origin in arrow_layouts.origins(batch.records)] == [0, 1, 0]


def test_a_file_of_either_kind_is_recognised_by_its_first_letter(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b'\n {"x":1}\n{"x":2}\n')
    (tmp_path / "b").write_bytes(b"x\n1\n")
    (batch,) = read(expand([str(tmp_path)]), framing=JsonOrCsv(JsonValues(), CsvRows()))
    assert arrow_layouts.records(batch.records) == [
        Record(b'{"x":1}'),
        Record(b'{"x":2}'),
        Record(b"1", headers=((HEADER, b"x"),)),
    ]


def test_with_kcat_a_record_that_is_no_message_is_a_plain_one(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b'{"op":"c"}\n{"topic":"t","partition":0,"offset":1,"payload":"{}"}\n')
    (batch,) = read(expand([str(tmp_path)]), framing=JsonValues(), carrier="kcat")
    assert arrow_layouts.records(batch.records) == [Record(b'{"op":"c"}'), Record(b"{}", topic="t")]
