"""The two spellings of the name of a rejected record, in Python and in SQL, are one."""

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeling.log.reject_ids import REJECT_ID, reject_id
from changeling.model.arrow_layouts import ORIGIN
from changeling.model.change import Origin

ORIGINS = [
    Origin("in/a b.json", 3, 17),
    Origin("in/it's.json", 0, 0),
    Origin(None, 0, None, "orders", 2, 5),
    Origin(None, 4, None, "orders", 0, 0),
]


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_reject_has_the_same_name_in_sql(spark: SparkSession, origin: Origin) -> None:
    place = msgspec.structs.asdict(origin)
    rows = pa.table({"source": ["shop"], "origin": pa.array([place], ORIGIN)})
    assert spark.createDataFrame(rows).selectExpr(REJECT_ID).first() == (reject_id("shop", origin),)
