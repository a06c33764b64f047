"""Where a pipeline's state is stored: its catalog, its lock, its tables."""

import importlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from changeling.iceberg.catalog import Catalog, catalog
from changeling.model.printable import counted
from changeling.pipelines.definition import setting_texts
from changeling.pipelines.loading import LoadedPipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changeling.iceberg.lake import Lake
    from changeling.iceberg.reader import Tables
    from changeling.iceberg.relocation import Relocated

_OBJECT_STORES = ("s3://", "s3a://")
_LOGGER = logging.getLogger(__name__)
"""Logs the start of Spark, which takes seconds, and minutes where jars have to be fetched."""


def catalog_of(loaded: LoadedPipeline) -> Catalog:
    """The catalog that the pipeline names, or the embedded one."""
    return catalog(loaded.warehouse, loaded.folder, setting_texts(loaded.definition.catalog))


def lock_file(loaded: LoadedPipeline) -> Path:
    """In a local warehouse, otherwise next to the pipeline file."""
    folder = loaded.folder if "://" in loaded.warehouse else Path(loaded.warehouse)
    return folder / f"{loaded.definition.name}.lock"


def relocate(loaded: LoadedPipeline) -> "Relocated":
    """Corrects the paths of the pipeline's warehouse, where its file says that it is, for all pipelines in it; see `iceberg.relocation`."""
    from changeling.iceberg.lock import held
    from changeling.iceberg.relocation import relocate as correct_paths

    with held(lock_file(loaded), loaded.definition.name, "changeling relocate"):
        return correct_paths(catalog_of(loaded))


def tables_of(loaded: LoadedPipeline) -> "Tables":
    """The tables without Spark."""
    from changeling.iceberg.reader import Tables

    return Tables(catalog_of(loaded), loaded.definition.name)


def lake_of(loaded: LoadedPipeline) -> "Lake":
    """The tables on Spark: this starts a session with the settings of the pipeline, or uses the running one."""
    from changeling.iceberg.lake import Lake

    return Lake(spark_of(loaded), catalog_of(loaded), loaded.definition.name)


def spark_of(loaded: LoadedPipeline, **config: str) -> "SparkSession":
    """Spark with the settings of the pipeline and the jars of its warehouse; `config` overrides them. A running session is used."""
    from pyspark import SparkContext

    from changeling.spark import jars
    from changeling.spark.starting import add_jars, session

    if SparkContext._active_spark_context is None:
        _LOGGER.info(start_of_spark(loaded))
    spark = session(**{**setting_texts(loaded.definition.spark), **config})
    if loaded.warehouse.startswith(_OBJECT_STORES):
        add_jars(spark, jars.S3)
    return spark


def start_of_spark(loaded: LoadedPipeline) -> str:
    """What is done when Spark is started; raises `ModuleNotFoundError` where there is none to start."""
    importlib.import_module("pyspark")
    missing = missing_jars(loaded)
    return f"fetching {counted(missing, 'jar')}, then starting Spark" if missing else "starting Spark"


def missing_jars(loaded: LoadedPipeline) -> int:
    """How many jars are fetched when Spark is started."""
    from changeling.spark import jars

    needed = jars.ICEBERG + jars.KAFKA + (jars.S3 if loaded.warehouse.startswith(_OBJECT_STORES) else ())
    return len(jars.missing_of(needed))
