"""What a commit says of the files that it adds."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.parquet_files import Writer, WriteSpec, WrittenFile
from changeling.iceberg.row_delta import registered
from changeling.spark.gateway import JavaNames
from tests.iceberg.stored import numbered

_TYPES = {
    "id": ("long", pa.int64(), [1, 2, 3]),
    "name": ("string", pa.string(), ["a name that is longer than its bound", None, "é"]),
    "price": ("decimal(20, 2)", pa.decimal128(20, 2), [Decimal("-1.50"), Decimal("12345678901234567.89"), None]),
    "ratio": ("double", pa.float64(), [float("nan"), 1.5, -0.0]),
    "at": ("timestamptz", pa.timestamp("us", "UTC"), [datetime(2024, 2, 29, tzinfo=UTC), None, None]),
    "data": ("binary", pa.binary(), [b"\xff" * 40, b"", None]),
    "nothing": ("int", pa.int32(), [None, None, None]),
}


@pytest.mark.parametrize("without_bounds", [frozenset(), frozenset({"name"})])
def test_files_are_registered_with_the_metrics_that_iceberg_finds(
    spark: SparkSession, tmp_path: Path, without_bounds: frozenset[str]
) -> None:
    jvm = JavaNames.of(spark.sparkContext)
    iceberg = jvm.org.apache.iceberg
    fields = [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, (name, (kind, *_)) in enumerate(_TYPES.items(), start=1)
    ]
    schema = iceberg.SchemaParser.fromJson(json.dumps({"type": "struct", "schema-id": 0, "fields": fields}))
    tables = iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())
    table = tables.create(schema, str(tmp_path / "table"))
    columns = numbered(pa.schema([(name, kind) for name, (_, kind, _) in _TYPES.items()]))
    writer = Writer(WriteSpec(str(tmp_path / "table"), columns, without_bounds=without_bounds))
    writer.write(pa.record_batch([pa.array(values, kind) for _, kind, values in _TYPES.values()], schema=columns))
    (written,) = writer.close()

    def printed(file: WrittenFile) -> dict[str, object]:
        found: dict[str, object] = json.loads(
            iceberg.ContentFileParser.toJson(registered(jvm, table, file), table.spec())
        )
        return found | {"file-path": written.path}

    # With a scheme, Iceberg's own function is asked.
    named = WrittenFile(f"file://{written.path}", written.rows, written.bytes)
    found = printed(written)
    assert found == printed(named)
    assert found["record-count"] == 3
    bounded = set(found["lower-bounds"]["keys"])  # type: ignore[index]
    assert bounded == ({1, 2, 3, 4, 5, 6} if not without_bounds else {1, 3, 4, 5, 6})
