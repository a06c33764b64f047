"""The embedded catalog shows what PyIceberg's catalog over the same file shows, and what it loads can be written."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from changeling.iceberg.catalog import NAME, catalog
from changeling.iceberg.embedded_catalog import EmbeddedCatalog
from changeling.iceberg.reader import Tables

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[SqlCatalog]:
    made = Tables(catalog(str(tmp_path), tmp_path, {}), "shop").catalog()
    assert isinstance(made, SqlCatalog)
    for namespace in ("shop", "shop_replica", "empty"):
        made.create_namespace(namespace)
    for place in (("shop", "changes"), ("shop", "a.b"), ("shop_replica", "users")):
        made.create_table(place, ROWS.schema).append(ROWS)
    yield made
    made.close()


@pytest.fixture
def ours(theirs: SqlCatalog, tmp_path: Path) -> EmbeddedCatalog:
    settings = catalog(str(tmp_path), tmp_path, {})
    assert settings.database is not None
    return EmbeddedCatalog(NAME, settings.database, settings.pyiceberg)


def test_it_shows_what_pyiceberg_shows(theirs: SqlCatalog, ours: EmbeddedCatalog) -> None:
    assert sorted(ours.list_namespaces()) == sorted(theirs.list_namespaces())
    for namespace in ("shop", "shop_replica", "empty"):
        assert sorted(ours.list_tables(namespace)) == sorted(theirs.list_tables(namespace))
    for place in (("shop", "changes"), "shop_replica.users"):
        found, known = ours.load_table(place), theirs.load_table(place)
        assert (found.name(), found.metadata, found.metadata_location) == (
            known.name(),
            known.metadata,
            known.metadata_location,
        )
        assert found.scan().to_arrow() == ROWS
    with pytest.raises(NoSuchTableError):
        ours.load_table(("shop", "orders"))


def test_what_it_loads_can_be_written(theirs: SqlCatalog, ours: EmbeddedCatalog) -> None:
    ours.load_table(("shop", "changes")).append(ROWS)
    assert theirs.load_table(("shop", "changes")).scan().to_arrow().num_rows == 4
    ours.writer.close()


def test_views_are_no_tables(theirs: SqlCatalog, ours: EmbeddedCatalog, tmp_path: Path) -> None:
    row = "INSERT INTO iceberg_tables VALUES ('lake', 'shop', 'a_view', 'view.json', NULL, 'VIEW')"
    with closing(sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)) as connection:
        connection.execute(row)
    assert sorted(ours.list_tables("shop")) == [("shop", "a.b"), ("shop", "changes")]
    with pytest.raises(NoSuchTableError):
        ours.load_table(("shop", "a_view"))


def test_a_catalog_from_before_views_is_read(theirs: SqlCatalog, ours: EmbeddedCatalog, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)) as connection:
        connection.execute("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    assert sorted(ours.list_tables("shop")) == [("shop", "a.b"), ("shop", "changes")]
    assert ours.load_table(("shop", "changes")).scan().to_arrow() == ROWS
