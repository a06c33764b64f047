"""Spark looks for data sources in modules whose names begin with `pyspark_`: so `format("changeling")` needs no registration."""

from changeling.datasource.source import ChangelingSource as DefaultSource

__all__ = ["DefaultSource"]
