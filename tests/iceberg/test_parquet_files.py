"""What the files of a table keep of their columns, and how large their row groups are."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from changeling.iceberg.parquet_files import Writer, WriteSpec
from changeling.log.log_tables import QUARANTINE, TABLES


def columns_with_bounds(folder: Path, without_bounds: frozenset[str]) -> set[str]:
    names = ["after", "before", "id", "meta", "plan", "raw", "schema", "value"]
    rows = pa.record_batch([pa.array(["x", "y"])] * len(names), names=names)
    writer = Writer(WriteSpec(str(folder), rows.schema, without_bounds=without_bounds))
    writer.write(rows)
    (file,) = writer.close()
    group = pq.ParquetFile(file.path).metadata.row_group(0)
    return {name for place, name in enumerate(names) if (found := group.column(place).statistics) and found.has_min_max}


def test_bounds_are_left_out_where_a_table_says_so_and_nowhere_else(tmp_path: Path) -> None:
    everything = {"after", "before", "id", "meta", "plan", "raw", "schema", "value"}
    assert columns_with_bounds(tmp_path, frozenset()) == everything
    assert columns_with_bounds(tmp_path, QUARANTINE.without_bounds) == everything - {"value"}
    assert {table.name: set(table.without_bounds) for table in TABLES} == {
        "changes": {"before", "after", "meta"},
        "rejects": {"raw"},
        "schemas": {"schema"},
        "batches": {"plan"},
        "points": set(),
        "asides": {"value"},
    }


@pytest.mark.parametrize(
    ("batches", "groups"),
    [
        ([8_192] * 40, [131_072, 131_072, 65_536]),
        ([20_000] * 14, [140_000, 140_000]),
        ([128_000, 5], [128_000, 5]),
        ([127_999, 200_000], [164_000, 163_999]),
        ([1_000_000], [142_858] * 6 + [142_852]),
        ([3], [3]),
    ],
)
def test_what_waits_becomes_one_row_group_and_a_large_batch_several_of_a_size(
    batches: list[int], groups: list[int], tmp_path: Path
) -> None:
    column = pa.schema([pa.field("n", pa.int64())])
    writer = Writer(WriteSpec(str(tmp_path), column))
    first = 0
    for rows in batches:
        writer.write(pa.record_batch([pa.array(range(first, first + rows))], schema=column))
        first += rows
    (file,) = writer.close()
    read = pq.ParquetFile(file.path)
    assert [read.metadata.row_group(place).num_rows for place in range(read.num_row_groups)] == groups
    assert read.read().column("n").to_pylist() == list(range(first))
