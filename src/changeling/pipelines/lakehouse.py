"""Where a pipeline's state is stored: its catalog, its lock, its tables."""

from pathlib import Path
from typing import TYPE_CHECKING

from changeling.iceberg.catalog import Catalog, catalog
from changeling.pipelines.definition import setting_texts
from changeling.pipelines.loading import Loaded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changeling.iceberg.lake import Lake
    from changeling.iceberg.reader import Tables


def catalog_of(loaded: Loaded) -> Catalog:
    """The catalog that the pipeline names, or the embedded one."""
    return catalog(loaded.warehouse, loaded.folder, setting_texts(loaded.definition.catalog))


def lock_file(loaded: Loaded) -> Path:
    """In a local warehouse, otherwise next to the pipeline file."""
    folder = loaded.folder if "://" in loaded.warehouse else Path(loaded.warehouse)
    return folder / f"{loaded.definition.name}.lock"


def tables_of(loaded: Loaded) -> "Tables":
    """The tables without Spark."""
    from changeling.iceberg.reader import Tables

    return Tables(catalog_of(loaded), loaded.definition.name)


def lake_of(loaded: Loaded) -> "Lake":
    """The tables on Spark: this starts a session with the settings of the pipeline, or uses the running one."""
    from changeling.iceberg.lake import Lake

    return Lake(spark_of(loaded), catalog_of(loaded), loaded.definition.name)


def spark_of(loaded: Loaded, **config: str) -> "SparkSession":
    """Spark with the settings of the pipeline and the jars of its warehouse; `config` overrides them. A running session is used."""
    from changeling.spark import jars
    from changeling.spark.starting import add_jars, session

    spark = session(**{**setting_texts(loaded.definition.spark), **config})
    if loaded.warehouse.startswith(("s3://", "s3a://")):
        add_jars(spark, jars.S3)
    return spark
