"""The Spark session: the running one, or a quiet local one unless the settings name another master."""

import os
import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from changeling.spark.gateway import start

_LOGGING = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_DEFAULTS = {
    "spark.app.name": "changeling",
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Measured: batches of 4,000 to 8,000 changes cross between Python and the JVM at twice the speed of 20,000 or 1,000.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8000",
}
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def session(**config: str) -> SparkSession:
    """The active session, or a new one: on all local cores unless `spark.master` (or spark-submit) says otherwise.

    `config` takes any Spark settings, `session(**{"spark.master": "local[2]"})`; they go before ours, and are applied to an
    active session as far as Spark can change them there. Raises `ChangelingError` where there is no Java 17 or later.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.config(map=dict(config)).getOrCreate()
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _submitted(config)
    settings = {**_DEFAULTS, **config}
    if settings["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {**_LOOPBACK, **settings}
    settings[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {config.get(_JAVA_OPTIONS, '')}".strip()
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    SparkContext(conf=conf, gateway=start(conf))
    return SparkSession.builder.getOrCreate()


def _submitted(config: dict[str, str]) -> SparkSession:
    """Under spark-submit the JVM runs already: its settings stand, ours fill the gaps."""
    conf = SparkConf().setAll(list(config.items()))
    for name, value in _DEFAULTS.items():
        conf.setIfMissing(name, value)
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
