"""Tables that are copied for tests are those that a pipeline makes."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from changeling.iceberg.lake import Lake
from changeling.log.log_tables import TABLES, VERSION
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from tests.log.lakes import Shop, log_only
from tests.log.prepared import Prepared, _make


def described(made: Shop) -> dict[str, Any]:
    """All that the catalog and the metadata say of the tables, but for what differs between any two."""
    database = made.folder / "lake" / "catalog.db"
    with closing(sqlite3.connect(database)) as connection:
        tables = connection.execute("SELECT * FROM iceberg_tables").fetchall()
        namespaces = connection.execute("SELECT * FROM iceberg_namespace_properties").fetchall()
    found: dict[str, Any] = {"namespaces": sorted(namespaces)}
    for catalog, namespace, table, place, before, kind in tables:
        metadata = json.loads(Path(place.removeprefix("file:")).read_bytes())
        for name in ("table-uuid", "last-updated-ms"):
            assert metadata.pop(name)
        metadata["location"] = metadata["location"].replace(str(made.folder), "FOLDER")
        found[table] = (catalog, namespace, before, kind, metadata)
    return found


def test_a_copy_is_what_a_pipeline_makes(spark: SparkSession, tmp_path: Path) -> None:
    prepared = Prepared()
    one, other = log_only(tmp_path / "made"), log_only(tmp_path / "copied")
    _make(lake_of(load(one.file)), TABLES, VERSION)
    prepared.create(lake_of(load(other.file)), TABLES, VERSION)
    prepared.remove()
    assert described(other) == described(one)
    assert len(described(one)) == 7
    ids = [_id(lake_of(load(made.file))) for made in (one, other)]
    assert len(set(ids)) == 2


def _id(lake: Lake) -> str:
    from changeling.log.log_tables import CHANGES

    return str(lake.load(CHANGES).uuid())
