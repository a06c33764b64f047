import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

import changeling.spark

# Machines are noisy: no test asserts a time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


# Every JVM that tests start, Spark's and the brokers', lives for seconds or minutes beside others on few cores: quick to
# start and light beats quick in the long run.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    started = changeling.spark.session(
        **{
            # One core a worker of the tests; what parallel tasks do is the subject of tests of their own.
            "spark.master": "local[1]",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.adaptive.enabled": "false",
            # Small, so that a few rows already come in several batches.
            "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        }
    )
    yield started
    started.stop()
