"""The Spark session: the active one, or a quiet local one unless the settings name another master."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from changeling.spark import jars
from changeling.spark.gateway import JavaNames, start

_LOGGING = Path(__file__).with_name("log4j2.properties")
_FILES_SOURCE = Path(__file__).with_name("LocalFiles.java")
_FILES_CLASS = "changeling.LocalFiles"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_JARS = "spark.jars"
_DEFAULTS = {
    "spark.app.name": "changeling",
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # The sources of a run and its merge have a pool each: a long job of one does not hold up the others.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    # Measured: batches of 4,000 to 8,000 changes cross between Python and the JVM twice as fast as those of 20,000 or 1,000.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8000",
    # By default, Kafka's connector caches what its tasks fetched and did not use for five minutes: many batches fill the memory.
    "spark.kafka.consumer.cache.timeout": "30s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "10s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "10s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "10s",
    # What a worker of Python's frees is kept for its next batch. By default Arrow's and C's allocators return it at once, and get it again page
    # by page: a sixth of the CPU time of reading 2 M events into the log.
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "10000",
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 * 1024 * 1024),
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 * 1024 * 1024),
}
_ALWAYS = jars.ICEBERG + jars.KAFKA
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# The tasks read and write object stores themselves: on a cluster they need these variables of the driver's environment.
_PASSED_ON = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE")
_PASSED_ON_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def session(**config: str) -> SparkSession:
    """The active session, or a new one with these settings: see `changeling.lake_session`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.config(map=dict(config)).getOrCreate()
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _submitted(config)
    settings = {**_DEFAULTS, **config}
    if settings["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {**_LOOPBACK, **settings}
    else:
        settings = {**_environment(), **settings}
    settings[_JARS] = ",".join([*(str(jar) for jar in jars.resolve(_ALWAYS)), *_listed(config)])
    settings[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {config.get(_JAVA_OPTIONS, '')}".strip()
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with _own_interrupts():
        _use_own_files(SparkContext(conf=conf, gateway=start(conf)))
    return SparkSession.builder.getOrCreate()


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restores the program's own handler of Ctrl-C, which Spark replaces."""
    before = signal.getsignal(signal.SIGINT)
    yield
    ours = threading.current_thread() is threading.main_thread() and before is not signal.default_int_handler
    if ours and before is not None:
        signal.signal(signal.SIGINT, before)


def add_jars(spark: SparkSession, coordinates: tuple[str, ...]) -> None:
    """Adds jars to a running session, on the driver and for later tasks."""
    found = jars.resolve(coordinates)
    _add_to_driver(found)
    for jar in found:
        spark.sparkContext._jsc.sc().addJar(str(jar))


def _listed(config: Mapping[str, str]) -> list[str]:
    return [jar for jar in config.get(_JARS, "").split(",") if jar]


def _environment() -> dict[str, str]:
    names = (*_PASSED_ON, *_PASSED_ON_SECRETS)
    return {f"spark.executorEnv.{name}": os.environ[name] for name in names if os.environ.get(name)}


def _submitted(config: dict[str, str]) -> SparkSession:
    """Under spark-submit the JVM runs already: its settings stay, ours fill the gaps."""
    conf = SparkConf().setAll(list(config.items()))
    for name, value in _DEFAULTS.items():
        conf.setIfMissing(name, value)
    found = jars.resolve(_ALWAYS)
    listed = [jar for jar in conf.get(_JARS, "").split(",") if jar]
    conf.set(_JARS, ",".join([*listed, *(str(jar) for jar in found)]))
    SparkContext._ensure_initialized(conf=conf)
    _add_to_driver(found)
    with _own_interrupts():
        spark = SparkSession.builder.config(conf=conf).getOrCreate()
    _use_own_files(spark.sparkContext)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _add_to_driver(found: list[Path]) -> None:
    """The driver's class path was fixed when spark-submit started it; its own class loader still accepts more."""
    jvm = SparkContext._jvm
    assert jvm is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in found:
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())


def _use_own_files(context: SparkContext) -> None:
    """From now on the driver's JVM opens local paths with our file system, which Spark's own compiler compiles.

    Hadoop's own file system runs `chmod` for every file that it creates, and again for its checksum, unless Hadoop's native library
    is installed, which PySpark does not ship. A commit of Iceberg creates three files: a small run started 30 processes, which took a
    quarter of all CPU time.
    """
    java = JavaNames.of(context)
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(java.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_FILES_SOURCE.read_text(encoding="utf-8"))
    settings = java.org.apache.hadoop.conf.Configuration(context._jsc.hadoopConfiguration())
    settings.setClassLoader(compiler.getClassLoader())
    settings.set("fs.file.impl", _FILES_CLASS)
    local = java.java.net.URI("file:///")
    # Hadoop keeps one instance for each scheme, whatever is configured later: the one of Spark's start makes room for ours.
    java.org.apache.hadoop.fs.FileSystem.get(local, settings).close()
    java.org.apache.hadoop.fs.FileSystem.get(local, settings)
