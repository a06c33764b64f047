"""The lake is read by name: from a session of the pipeline, and by Spark and PyIceberg through the REST catalog."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import changeling.spark
from changeling.iceberg.engine_settings import settings_of
from changeling.pipelines.catalog_settings import served_catalog
from changeling.pipelines.lakehouse import catalog_of
from changeling.pipelines.loading import load
from tests.log.lakes import Shop

USERS = [
    {"id": 1, "name": "Anna", "n": 10},
    {"id": 3, "name": "Cid", "n": 3},
    {"id": 4, "name": "Dee", "n": 4},
]
READ = "SELECT id, name, n FROM {}.shop_replica.public__users ORDER BY id"
TOPIC = "SELECT offset, CAST(value AS STRING) AS value FROM {}.shop_feeds.ups ORDER BY offset"
RECORDS = [
    {"offset": 0, "value": '{"key":[1],"update":{"name":"Ann","n":1}}'},
    {"offset": 1, "value": '{"key":[2],"update":{"name":"Bob","n":2}}'},
    {"offset": 2, "value": '{"key":[1],"update":{"name":"Anna","n":10}}'},
    {"offset": 3, "value": '{"key":[2],"erase":{}}'},
    {"offset": 4, "value": '{"key":[3],"update":{"name":"Cid","n":null}}'},
]


def rows(spark: SparkSession, query: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.sql(query).collect()]


@contextmanager
def served(lake: Shop) -> Iterator[str]:
    """The address of a catalog that serves the lake for the token `open`."""
    loaded = load(lake.file)
    found = served_catalog(loaded, "127.0.0.1", 0, "open", shown="open")
    with found.server as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.uri
        finally:
            server.shutdown()
            thread.join()


def test_a_session_of_the_pipeline_has_its_lake(lake: Shop, spark: SparkSession) -> None:
    session = changeling.spark.session(lake.file, **{"spark.sql.shuffle.partitions": "2"})
    assert session.sparkContext is spark.sparkContext
    assert rows(session, READ.format("lake")) == USERS
    assert rows(session, TOPIC.format("lake")) == RECORDS
    (first,) = rows(session, "SELECT tables FROM lake.shop.points WHERE point = 1")
    snapshot = next(one["snapshot"] for one in first["tables"] if one["name"] == "public__users")
    (then,) = rows(session, f"SELECT count(*) AS n FROM lake.shop_replica.public__users VERSION AS OF {snapshot}")
    assert then == {"n": 2}
    assert session.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.sql.catalog.lake", None) is None


def test_spark_and_pyiceberg_read_through_the_rest_catalog(lake: Shop, spark: SparkSession) -> None:
    with served(lake) as address:
        loaded = load(lake.file)
        session = spark.newSession()
        prefix = "spark.sql.catalog.remote"
        session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        for name, value in {"type": "rest", "uri": address, "token": "open", "warehouse": loaded.warehouse}.items():
            session.conf.set(f"{prefix}.{name}", value)
        assert rows(session, READ.format("remote")) == USERS
        assert rows(session, TOPIC.format("remote")) == RECORDS
        assert {row["namespace"] for row in rows(session, "SHOW NAMESPACES IN remote")} == {
            "shop",
            "shop_feeds",
            "shop_replica",
        }
        for refused in (
            "DELETE FROM remote.shop_replica.public__users",
            "DROP TABLE remote.shop_replica.public__users",
            "CREATE TABLE remote.shop.mine (a int) USING iceberg",
        ):
            with pytest.raises(PySparkException, match=r"does not support|read-only"):
                session.sql(refused)
        remote = load_catalog("lake", type="rest", uri=address, token="open")
        own = load_catalog("lake", **catalog_of(loaded).pyiceberg)
        for namespace in own.list_namespaces():
            assert remote.list_tables(namespace) == sorted(own.list_tables(namespace))
            for table in own.list_tables(namespace):
                assert remote.load_table(table).metadata == own.load_table(table).metadata
                assert remote.load_table(table).scan().to_arrow() == own.load_table(table).scan().to_arrow()
        remote.close()
        own.close()
    assert settings_of(catalog_of(loaded))["type"] == "jdbc"
