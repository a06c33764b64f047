"""What the tasks of a job read of a table, all together, is the table."""

from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from changeling.iceberg import deletion_vectors, file_parts
from changeling.iceberg.data_files import FIELD_ID, DataFile
from changeling.iceberg.file_parts import FileParts, shared_out

COLUMNS = pa.schema([pa.field("number", pa.int64(), metadata={FIELD_ID: b"1"})])


def stored(folder: Path, first: int, rows: int, group_rows: int) -> DataFile:
    path = folder / f"{first}.parquet"
    pq.write_table(pa.table([pa.array(range(first, first + rows))], schema=COLUMNS), path, row_group_size=group_rows)
    return DataFile(str(path), rows, path.stat().st_size, lower={1: b"x"}, json="{}")


@pytest.mark.parametrize("most", [300, 1_000, 100_000])
@pytest.mark.parametrize("cores", [1, 3, 40])
def test_every_row_is_read_by_one_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, cores: int) -> None:
    monkeypatch.setattr(file_parts, "PART_BYTES", most)
    monkeypatch.setattr(file_parts, "_MIN_BYTES", 100)
    files = [stored(tmp_path, first, rows, 7) for first, rows in ((0, 100), (100, 1), (101, 3), (104, 500), (604, 20))]
    gone = np.array([0, 7, 8, 499])
    vectors = deletion_vectors.write(str(tmp_path), {files[3].path: gone})
    files[3] = msgspec.structs.replace(files[3], vector=vectors[files[3].path])
    tasks = shared_out(files, cores)
    parts = FileParts(tasks, COLUMNS, pc.field("number") != 50)
    read = [
        pa.concat_tables([COLUMNS.empty_table(), *parts.rows([pa.record_batch({"id": [number]})])])
        .column("number")
        .to_pylist()
        for number in range(len(tasks))
    ]
    assert [number for rows in read for number in rows] == [
        number for number in range(624) if number != 50 and number - 104 not in gone
    ]
    assert all(sum(part.file.size // part.parts for part in task) <= max(most, 100) for task in tasks)
    assert len(tasks) > 1 or most == 100_000


def test_a_table_without_files_is_read_by_nobody() -> None:
    assert shared_out([], 2) == []
