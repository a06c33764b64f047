"""Conflicts of writers are known by the class of Java's exception, whatever it says."""

import pytest
from pyspark.sql import SparkSession

from changeling.model.errors import ChangelingError
from changeling.spark.errors import Conflict, translated_errors
from changeling.spark.gateway import JavaNames


def test_a_validation_that_fails_is_a_conflict(spark: SparkSession) -> None:
    jvm = JavaNames.of(spark.sparkContext)
    nothing = jvm.java.util.ArrayList().toArray()
    with pytest.raises(Conflict, match=r"^ValidationException: somebody else was here$"), translated_errors():
        jvm.org.apache.iceberg.exceptions.ValidationException.check(False, "somebody else was here", nothing)


def test_another_error_is_none_whatever_it_says(spark: SparkSession) -> None:
    jvm = JavaNames.of(spark.sparkContext)
    with pytest.raises(ChangelingError, match="CommitFailedException") as raised, translated_errors():
        jvm.java.lang.Integer.parseInt("CommitFailedException: no")
    assert type(raised.value) is ChangelingError
