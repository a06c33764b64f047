from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

import changeling.spark

# Machines are noisy: no test asserts a time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    started = changeling.spark.session(
        **{
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": "2",
            # Small, so that a few rows already come in several batches.
            "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        }
    )
    yield started
    started.stop()
