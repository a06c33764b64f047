"""Definitions next to the tables of a run: a feed begins at its last point, and Spark reads and drops their table."""

from pathlib import Path

from pyspark.sql import SparkSession

from changeling.feeds.definitions import FEEDS
from changeling.log import log_tables
from changeling.model.table import TableName
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from tests.log.lakes import event, shop


def test_a_feed_of_a_merged_table_begins_at_its_last_point(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    made.pipeline.sql("ALTER TABLE orders ADD CHANGEFEED waiting WITH (FORMAT = 'JSON', MODE = 'UPDATES')")
    made.write("a.json", event(1))
    made.pipeline.run(once=True)
    made.write("b.json", event(2))
    made.pipeline.run(once=True)
    made.pipeline.sql("ALTER TABLE users ADD CHANGEFEED f WITH (FORMAT = 'xtdb', MODE = 'NEW_AND_OLD_IMAGES')")
    last = max(row["point"] for row in made.rows(log_tables.POINTS))
    f, waiting = made.pipeline.feeds()
    assert (f.source, f.table, f.status, f.start) == ("drop", TableName("mydb", None, "users"), "enabled", last)
    assert (waiting.status, waiting.start) == ("pending", None)
    lake = lake_of(load(made.file))
    assert lake.rows(FEEDS).sort_by("name").column("name").to_pylist() == ["f", "waiting"]
    assert "feeds" in made.pipeline.remove()
    assert list(made.pipeline.feeds()) == []
