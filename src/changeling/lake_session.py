"""The Spark session for users, with the lake of a pipeline where one is named."""

from pathlib import Path

from pyspark.sql import SparkSession

from changeling.iceberg.catalog import check_place, prepare
from changeling.pipelines.lakehouse import catalog_of, spark_of
from changeling.pipelines.loading import load
from changeling.spark import starting


def session(pipeline: str | Path | None = None, **config: str) -> SparkSession:
    """The active session, or a new one: on all local cores unless `spark.master` (or spark-submit) says otherwise.

    With the file of a `pipeline`, the session has its catalog as `lake`: `session("shop.yaml").table("lake.shop_replica.users")`.
    It is a session of its own on the same Spark, so that two pipelines can be read side by side, and starts Spark with the
    settings of the pipeline. `config` takes any Spark settings, `session(**{"spark.master": "local[2]"})`; they override ours,
    and are applied to an active session as far as Spark can change them there. The jars of Iceberg and Kafka come from a cache
    that is filled at the first start. Raises `ChangelingError` where Java 17 or later is missing, a jar cannot be fetched, or
    the warehouse was moved.
    """
    if pipeline is None:
        return starting.session(**config)
    loaded = load(pipeline)
    catalog = catalog_of(loaded)
    if catalog.database is not None:
        prepare(catalog.database)
        check_place(catalog, loaded.definition.name)
    made = spark_of(loaded, **config).newSession()
    changeable = {name: value for name, value in config.items() if made.conf.isModifiable(name)}
    for name, value in {**catalog.spark, **changeable}.items():
        made.conf.set(name, value)
    return made
