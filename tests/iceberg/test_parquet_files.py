"""What the files of a table keep of their columns."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

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
