"""The records of a feed are in its files once, in order, wherever a run is interrupted, and read back as they were published."""

import os
import random
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest

import changeling
from changeling.conformance.cases import CASES, SCHEMA, SHOP, batch
from changeling.feeds.files_topic import Copied, FilesTopicWriter
from changeling.files.paths import expand
from changeling.files.reading import read
from changeling.formats import registry
from changeling.formats.format import read_options
from changeling.formats.framing import COLUMNS, HEADER
from changeling.iceberg.failpoints import FAILPOINTS, FailpointReached
from changeling.model.errors import ChangelingError, UsageError
from tests.feeds.filled_topics import NOON, FilledTopic, Sent
from tests.files.conftest import bucket, s3_endpoint

__all__ = ["bucket", "s3_endpoint"]

STEPS = [point for point in FAILPOINTS if point.startswith("files.")]
DIALECTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *((name, {}, {}) for name in registry.names() if name != "arcion-csv"),
    ("arcion-csv", {}, {"header": True}),
    ("arcion-csv", {"mode": "full", "include_header": False}, {"header": False}),
    ("arcion-csv", {"mode": "snapshot"}, {"mode": "snapshot", "header": True}),
    ("dataworks", {"layout": "csv"}, {}),
]


@pytest.fixture(autouse=True)
def _no_failpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHANGELING_FAILPOINT", raising=False)


def writer(made: FilledTopic, place: Path | str, **rolling: Any) -> FilesTopicWriter:
    return FilesTopicWriter(made.feed, made.topic(), str(place), **rolling)


def contents(place: Path) -> dict[str, bytes]:
    """The files that a reader finds."""
    return {path.name: path.read_bytes() for path in sorted(place.iterdir()) if path.is_file()}


def name(first: int, ending: str = "json", partition: int = 0) -> str:
    return f"{partition:05d}-{first:019d}.{ending}"


def row(value: bytes | None, columns: bytes, shown: bool = True) -> Sent:
    return Sent(value, {HEADER if shown else COLUMNS: columns})


@pytest.mark.parametrize(("dialect", "written", "reading"), DIALECTS)
def test_every_dialect_is_read_back_as_it_was_published(
    dialect: str, written: dict[str, Any], reading: dict[str, Any], tmp_path: Path
) -> None:
    changes = batch([change for change in CASES.values() if change.op != "message"])
    records, _ = changeling.encode(changes, dialect, drop="all", keyed=False, **written)
    published = [
        Sent(found["value"], {pair["name"]: pair["value"] for pair in found["headers"] or ()})
        for found in records.to_pylist()
    ]
    assert published
    made = FilledTopic(tmp_path, format=dialect)
    made.append(published)
    assert writer(made, tmp_path / "out", max_bytes=8_000).step(drain=True) is not None
    given = {"table": SHOP, "schemas": (SCHEMA,), **reading}
    form = registry.get(dialect)
    options = read_options(form, given)
    places = expand([str(tmp_path / "out")])
    assert len(places) > 1
    found = [batch.records for batch in read(places, framing=form.framing(options))]
    again = pa.Table.from_batches(found)
    assert again["value"].to_pylist() == [record.value for record in published]
    headers = [pairs and pairs[0]["value"] for pairs in again["headers"].to_pylist()]
    assert headers == [record.headers.get(HEADER) for record in published]
    assert decoded(again, dialect, given) == decoded(records, dialect, given)


def decoded(records: pa.Table, dialect: str, given: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Changes and rejects, without what differs: record headers that have no place in a file, and where a record was found."""
    found = changeling.decode(records.select(["value", "headers"]).combine_chunks(), dialect, **given)
    ours = {"meta", "headers", "origin"}
    return [table.select([name for name in table.column_names if name not in ours]).to_pylist() for table in found]


def test_files_are_cut_by_size(tmp_path: Path) -> None:
    made, out = FilledTopic(tmp_path), tmp_path / "out"
    made.append([b"11", b"22", b"333", b"4", None, b"too large for a file", None])
    files = writer(made, out, max_bytes=6)
    assert files.step(drain=False, now=NOON) == Copied(files=3, records=5)
    full = {name(0): b"11\n22\n", name(2): b"333\n4\n", name(5): b"too large for a file\n"}
    assert contents(out) == full
    assert files.step(drain=False, now=NOON) is None
    made.append([b"5", None])
    assert files.step(drain=False, now=NOON) is None
    made.append([b"666"])
    assert files.step(drain=False, now=NOON) == Copied(files=1, records=2)
    assert contents(out) == {**full, name(6): b"5\n666\n"}
    assert files.offsets() == [10]


def test_files_are_cut_by_time_and_at_the_end(tmp_path: Path) -> None:
    made, out = FilledTopic(tmp_path, partitions=2), tmp_path / "out"
    files = writer(made, out)
    assert files.step(drain=True) is None
    assert not out.exists()
    made.append([b"1", Sent(None, partition=1)])
    made.append([b"2", Sent(b"3", partition=1)], NOON + timedelta(seconds=30))
    assert files.step(drain=False, now=NOON + timedelta(seconds=59)) is None
    assert files.step(drain=False, now=NOON + timedelta(seconds=60)) == Copied(files=2, records=3)
    made.append([b"4"], NOON + timedelta(seconds=100))
    assert files.step(drain=False, now=NOON + timedelta(seconds=120)) is None
    assert writer(made, out).step(drain=True, now=NOON) == Copied(files=1, records=1)
    assert contents(out) == {name(0): b"1\n2\n", name(0, partition=1): b"3\n", name(2): b"4\n"}


def test_tombstones_alone_make_no_file(tmp_path: Path) -> None:
    made, out = FilledTopic(tmp_path), tmp_path / "out"
    made.append([None, None])
    files = writer(made, out)
    assert files.step(drain=True) is None
    made.append([b"1"])
    assert files.step(drain=True) == Copied(files=1, records=1)
    assert contents(out) == {name(2): b"1\n"}


def test_a_file_has_one_header(tmp_path: Path) -> None:
    made, out = FilledTopic(tmp_path), tmp_path / "out"
    files = writer(made, out, max_bytes=12)
    made.append([row(b"1,2", b"a,b"), Sent(None), row(b"3,4", b"a,b"), row(b"5,6", b"a,b"), row(b"7", b"a")])
    made.append([row(b"8", b"a", shown=False), Sent(None), row(b"9", b"a", shown=False), row(b"0", b"b", shown=False)])
    assert files.step(drain=False, now=NOON) == Copied(files=4, records=6)
    assert files.step(drain=True) == Copied(files=1, records=1)
    assert contents(out) == {
        name(0, "csv"): b"a,b\n1,2\n3,4\n",
        name(3, "csv"): b"a,b\n5,6\n",
        name(4, "csv"): b"a\n7\n",
        name(5, "csv"): b"8\n9\n",
        name(8, "csv"): b"0\n",
    }


def test_json_over_several_lines_becomes_one(tmp_path: Path) -> None:
    made, out = FilledTopic(tmp_path), tmp_path / "out"
    made.append([b'{\n "a": 1.50\n}', b"{}"])
    writer(made, out).step(drain=True)
    assert contents(out) == {name(0): b'{"a":1.50}\n{}\n'}


def test_only_files_that_are_whole_are_found(tmp_path: Path) -> None:
    made, out = FilledTopic(tmp_path), tmp_path / "out"
    made.append([b"{}"])
    writer(made, out).step(drain=True)
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["_changeling"]
    for path in (out, out / "*", out / "**"):
        assert [Path(place.path).name for place in expand([str(path)])] == [name(0)]


STEP = """
import sys
from pathlib import Path
from tests.feeds.filled_topics import FilledTopic
from changeling.feeds.files_topic import FilesTopicWriter
made = FilledTopic(Path(sys.argv[1]))
FilesTopicWriter(made.feed, made.topic(), sys.argv[2], max_bytes=4).step(drain=True)
"""


def killed(folder: Path, place: str, failpoint: str) -> None:
    """A process that is killed there."""
    done = subprocess.run(
        [sys.executable, "-c", STEP, str(folder), place],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CHANGELING_FAILPOINT": f"{failpoint}=kill"},
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("point", STEPS)
def test_a_killed_run_is_continued_with_the_same_files(tmp_path: Path, point: str) -> None:
    made, out = FilledTopic(tmp_path), tmp_path / "out"
    made.append([b"1", b"2", b"3"])
    killed(tmp_path, str(out), f"{point}@2")
    before = {path: path.stat().st_mtime_ns for path in out.glob("0*.json")}
    hidden = list(out.glob(".*"))
    assert len(before) == (2 if point == "files.written" else 1)
    assert len(hidden) == (1 if point == "files.staged" else 0)
    # The file that was planned does not grow, though it would have room.
    made.append([b"4"])
    assert writer(made, out, max_bytes=4).step(drain=True) == Copied(
        files=4 - 1 - len(before), records=4 - 1 - len(before)
    )
    assert contents(out) == {name(0): b"1\n2\n", name(2): b"3\n", name(3): b"4\n"}
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert list((out / "_changeling").iterdir()) == [out / "_changeling" / "ledger.json"]


def test_random_histories_are_copied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("changeling.feeds.files_topic._MAX_ROWS", 3)
    drawn = random.Random(7)
    made, out = FilledTopic(tmp_path, partitions=3), tmp_path / "out"
    expected: list[list[bytes]] = [[], [], []]
    files, now = writer(made, out, max_bytes=40), NOON
    for number in range(14):
        now += timedelta(seconds=drawn.randrange(50))
        sent = [
            Sent(
                drawn.choice([None, b"%d" % number * drawn.randrange(1, 12)]),
                {HEADER: drawn.choice([b"a", b"a", b"a", b"a,b"])},
                drawn.randrange(3),
            )
            for _ in range(drawn.randrange(8))
        ]
        for record in sent:
            if record.value is not None:
                expected[record.partition].append(record.headers[HEADER] + b":" + record.value)
        if sent:
            made.append(sent, now)
        if drawn.random() < 0.5:
            monkeypatch.setenv("CHANGELING_FAILPOINT", f"{drawn.choice(STEPS)}@{drawn.randrange(1, 3)}")
        try:
            files.step(drain=drawn.random() < 0.1, now=now)
        except FailpointReached:
            files = drawn.choice([files, writer(made, out, max_bytes=40)])
        monkeypatch.delenv("CHANGELING_FAILPOINT", raising=False)
    files.step(drain=True)
    found: list[list[bytes]] = [[], [], []]
    for path in sorted(out.glob("0*")):
        header, *rows = path.read_bytes().splitlines()
        assert len(rows) == 1 or path.stat().st_size <= 40
        found[int(path.name.partition("-")[0])] += [header + b":" + value for value in rows]
    assert found == expected


def objects() -> dict[str, bytes]:
    client = boto3.client("s3")
    try:
        keys = [found["Key"] for found in client.list_objects_v2(Bucket="lake").get("Contents", [])]
        return {
            key: client.get_object(Bucket="lake", Key=key)["Body"].read() for key in keys if "_changeling" not in key
        }
    finally:
        client.close()


@pytest.mark.parametrize("point", ["files.staged", "files.written"])
def test_objects_of_s3(tmp_path: Path, bucket: str, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, place = FilledTopic(tmp_path), f"s3://{bucket}/feeds/orders/"
    large = b"y" * 6_000_000
    made.append([large, large])
    monkeypatch.setenv("CHANGELING_FAILPOINT", point)
    with pytest.raises(FailpointReached):
        writer(made, place).step(drain=True)
    whole = {f"feeds/orders/{name(0)}": b"%b\n%b\n" % (large, large)}
    assert objects() == (whole if point == "files.written" else {})
    monkeypatch.delenv("CHANGELING_FAILPOINT")
    made.append([b"{}"])
    files = writer(made, place)
    files.step(drain=True)
    assert objects() == {**whole, f"feeds/orders/{name(2)}": b"{}\n"}
    assert [found.path for found in expand([f"{place}**"])] == [f"{place}{name(0)}", f"{place}{name(2)}"]
    assert files.offsets() == [3]


def test_a_folder_has_one_feed(tmp_path: Path) -> None:
    made, out = FilledTopic(tmp_path / "a"), tmp_path / "out"
    made.append([b"1"])
    writer(made, out).step(drain=True)
    for title, whose in (("orders", "an earlier feed of this name"), ("others", "the feed 'orders'")):
        other = FilledTopic(tmp_path / title, name=title, id="second")
        other.append([b"2"])
        with pytest.raises(UsageError, match=f"has the files of {whose}"):
            writer(other, out).step(drain=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "theirs.json").write_bytes(b"")
    with pytest.raises(UsageError, match=r"theirs\.json: there are files already"):
        writer(made, tmp_path / "full").step(drain=True)
    assert contents(out) == {name(0): b"1\n"}


@pytest.mark.parametrize("place", ["out/*.json", "s3://", "s3://user:word@bucket/x"])
def test_places_that_cannot_be(tmp_path: Path, place: str) -> None:
    made = FilledTopic(tmp_path)
    with pytest.raises(UsageError):
        writer(made, place)


def test_a_ledger_that_is_none_of_ours_is_not_overwritten(tmp_path: Path) -> None:
    made, ledger = FilledTopic(tmp_path), tmp_path / "out" / "_changeling" / "ledger.json"
    made.append([b"1"])
    ledger.parent.mkdir(parents=True)
    refusals: list[tuple[bytes, str]] = [
        (b"{}", "is not a ledger of ours"),
        (b'{"version":2,"feed":"orders","id":"first","next":[0]}', "has version 2"),
    ]
    for text, why in refusals:
        ledger.write_bytes(text)
        with pytest.raises(ChangelingError, match=why):
            writer(made, tmp_path / "out").step(drain=True)
        assert ledger.read_bytes() == text


def test_records_that_are_gone_are_reported(tmp_path: Path) -> None:
    made = FilledTopic(tmp_path)
    made.append([b"1"])
    writer(made, tmp_path / "out").step(drain=True)
    made.append([b"2", b"3"])
    made.forget(below=2)
    with pytest.raises(ChangelingError, match="of the offsets 1 to 2 of partition 0 only 1 are left"):
        writer(made, tmp_path / "out").step(drain=True)
    assert writer(made, tmp_path / "new").step(drain=True) == Copied(files=1, records=1)
    assert contents(tmp_path / "new") == {name(2): b"3\n"}
