"""Files read in the tasks give what one reader gives, whether they are split or not."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import changeling
import changeling.spark
from changeling.files import paths, reading
from changeling.formats import registry
from changeling.formats.format import read_options
from changeling.formats.framing import Framing, JsonValues
from changeling.model.errors import UsageError
from changeling.spark.files import shared_out
from changeling.spark.splits import line_count, splits
from tests.spark.inputs import in_order, lines_file


def framing_of(name: str, options: dict[str, Any]) -> Framing:
    form = registry.get(name)
    return form.framing(read_options(form, options))


def plain(files: list[Path], name: str = "xtdb", **options: Any) -> list[list[dict[str, Any]]]:
    framing = framing_of(name, options)
    batches = list(reading.read(paths.expand([str(file) for file in files]), framing=framing))
    changes, rejects = changeling.decode(pa.Table.from_batches([batch.records for batch in batches]), name, **options)
    unread = pa.Table.from_batches([batch.rejects for batch in batches])
    return [in_order(changes), in_order(pa.concat_tables([rejects, unread]))]


def on_spark(spark: SparkSession, files: list[Path], name: str = "xtdb", **options: Any) -> list[list[dict[str, Any]]]:
    found = changeling.spark.decode_files(spark, [str(file) for file in files], name, **options)
    return [in_order(part.toArrow()) for part in found]


@pytest.mark.parametrize("name", registry.names())
def test_split_files_give_what_one_reader_gives(spark: SparkSession, tmp_path: Path, name: str) -> None:
    file = tmp_path / "a.jsonl"
    lines, options = lines_file(file, name)
    expected = plain([file], name, **options)
    found = on_spark(spark, [file], name, split_bytes=file.stat().st_size // 3, **options)
    assert found == expected
    if framing_of(name, options) == JsonValues():
        assert {row["origin"]["record"] for part in found for row in part} == set(range(len(lines)))


def test_files_of_all_kinds_together(spark: SparkSession, tmp_path: Path) -> None:
    lines, _ = lines_file(tmp_path / "a.jsonl", "xtdb")
    (tmp_path / "b.json").write_bytes(b"[" + b",\n".join(lines) + b"]")
    (tmp_path / "c.json").write_bytes(b"\n\n".join(lines) + b"\n{broken\n" + lines[0])
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(b"\n".join(lines)))
    (tmp_path / "e.jsonl").write_bytes(b"\n".join([*lines, b"{broken}", *lines]))
    (tmp_path / "f.jsonl").write_bytes(b"")
    files = sorted(tmp_path.iterdir())
    assert on_spark(spark, [tmp_path], split_bytes=6000) == plain(files)
    assert on_spark(spark, [tmp_path]) == plain(files)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b'{"a":1}\n{"b":2}\n', 2),
        (b'{"a":1}\n{"b":2}', 2),
        (b'{"a":{"b":[]}}\n', 1),
        (b'{"a":1}{"b":2}\n', None),
        (b'{"a":1} {"b":2}\n', None),
        (b'{"a":1}\n\n{"b":2}\n', None),
        (b'{"a":1}\r\n{"b":2}\r\n', None),
        (b'{\n"a":1}\n', None),
        (b'[{"a":1}]\n', None),
        (b'\xef\xbb\xbf{"a":1}\n', None),
    ],
)
def test_only_plain_lines_are_counted(tmp_path: Path, text: bytes, lines: int | None) -> None:
    (tmp_path / "file").write_bytes(text)
    assert line_count(splits(str(tmp_path / "file"), 1 << 20)[0]) == lines


def test_a_line_over_the_limit_is_not_plain(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b'{"a":1}\n{"bcdef":2}\n')
    (part,) = splits(str(tmp_path / "file"), 1 << 20)
    assert (line_count(part, 11), line_count(part, 10)) == (2, None)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 16, 40, 1000])
def test_splits_hold_whole_lines_and_every_byte(tmp_path: Path, size: int) -> None:
    text = b'{"a":1}\n{"bcdefgh":2}\n{"c":3}\n{}'
    (tmp_path / "file").write_bytes(text)
    found = splits(str(tmp_path / "file"), size)
    parts = [text[part.start : part.stop] for part in found]
    assert b"".join(parts) == text
    assert all(part.endswith(b"\n") for part in parts[:-1])
    assert sum(line_count(part) or 0 for part in found) == 4


def test_a_file_that_changes_before_it_is_read_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    lines_file(file, "xtdb")
    changes = changeling.spark.decode_files(spark, str(file), "xtdb", split_bytes=1000).changes
    file.write_bytes(b"{}\n" * file.stat().st_size)
    with pytest.raises(PySparkException, match="was changed while it was read"):
        changes.count()


def test_a_path_that_stands_for_nothing_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        changeling.spark.decode_files(spark, str(tmp_path / "none.json"), "xtdb")


@pytest.mark.parametrize("sizes", [[0], [0, 0, 5], [5, 0], [20, 0, 3], [None, 0]])
def test_empty_files_are_read_like_others(sizes: list[int | None]) -> None:
    found = [paths.FileRef(str(number), size) for number, size in enumerate(sizes)]
    tasks = shared_out(found, 0, 10)
    assert [part.place for task in tasks for part in task] == found
    assert all(tasks)
