"""A batch that fails anywhere is brought in by the same process, once: as by a process that is started again."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.iceberg.failpoints import FailpointReached
from changeling.log import log_tables
from changeling.log.change_log import Log
from changeling.log.ingest import Ingest
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from changeling.pipelines.source_ingest import ingest_of
from tests.log.lakes import Shop
from tests.log.lakes import log_only as shop
from tests.log.records import debezium
from tests.log.test_crashes import READING

SOURCE = {"name": "bus", "type": "files", "path": "in/*.dbz", "format": "debezium-json"}
TABLES = (log_tables.CHANGES, log_tables.REJECTS, log_tables.SCHEMAS, log_tables.BATCHES)
TAGGED = {"plan"}
"""BatchPlans contain the times at which files were written."""


def begun(folder: Path) -> tuple[Shop, Ingest]:
    made = shop(folder, SOURCE)
    made.write("a.dbz", debezium(1), "broken")
    made.pipeline.run(once=True)
    loaded = load(made.file)
    return made, ingest_of(loaded, Log(lake_of(loaded)), loaded.definition.sources[0])


def more(made: Shop, number: int) -> None:
    """Changes of a table that was not known before, and a record that is not a change."""
    made.write(f"b{number}.dbz", debezium(10 * number, table=f"t{number}"), "broken", debezium(10 * number + 1))


def tables(made: Shop) -> dict[str, list[dict[str, Any]]]:
    return {
        table.name: [{name: row[name] for name in row if name not in TAGGED} for row in made.rows(table)]
        for table in TABLES
    }


def test_a_batch_that_fails_is_brought_in_once_by_the_same_process(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed, steady = begun(tmp_path / "undisturbed")
    made, ingest = begun(tmp_path / "lake")
    for number, point in enumerate(READING, start=1):
        for one in (undisturbed, made):
            more(one, number)
        assert steady.step() is not None
        monkeypatch.setenv("CHANGELING_FAILPOINT", point)
        with pytest.raises(FailpointReached):
            ingest.step()
        monkeypatch.delenv("CHANGELING_FAILPOINT")
        while ingest.step() is not None:
            pass
        assert ingest.state.read == steady.state.read, point
    assert tables(made) == tables(undisturbed)
