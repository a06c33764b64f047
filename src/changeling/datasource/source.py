"""`spark.read.format("changeling")`, registered: what Spark asks a data source for.

Spark loads this module whenever it looks for data sources, also where another one is wanted: everything else is loaded later.
"""

from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from changeling.datasource.settings import Settings


class ChangelingSource(DataSource):
    """Changes of records in files (`path`) or Kafka (`servers`, `topics`); `format` is their dialect."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "changeling"

    def schema(self) -> StructType:
        """The columns of a change, of a reject, or of both, as `rejects` asks for."""
        from changeling.spark.adapter import spark_schema

        return spark_schema(self._settings().layout)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads what there is now."""
        from changeling.datasource.readers import ChangesReader

        return ChangesReader(self._settings())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Reads what there is, and what comes."""
        from changeling.datasource.readers import ChangesStream

        return ChangesStream(self._settings())

    def _settings(self) -> "Settings":
        from changeling.datasource.settings import parse

        return parse(self.options)


def register(spark: SparkSession) -> None:
    """Makes `format("changeling")` known to a session. Spark finds it by itself where its Python can import `changeling`."""
    spark.dataSource.register(ChangelingSource)
