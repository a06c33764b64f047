"""The log stores what envelopes have in common once, and gives back every record."""

import json
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import changeling
from bench.events import events
from changeling.log.log_tables import CHANGES
from changeling.model import arrow_layouts
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from tests.log.lakes import log_only as shop

EVENTS = list(events(400))


def test_records_come_back_from_templates(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    made.write("1.json", *EVENTS)
    made.pipeline.run(once=True)
    stored = made.table(CHANGES)
    templates = set(stored["meta"].to_pylist())
    assert len(templates) == 2, "one a table"
    assert all(json.loads(text)["left_out"]["source.tx_id"] == "position.0" for text in templates)

    columns = [
        stored[name] if name in stored.column_names else pa.nulls(len(stored)) for name in arrow_layouts.CHANGES.names
    ]
    changes = pa.table(columns, names=arrow_layouts.CHANGES.names).cast(arrow_layouts.CHANGES)
    written, rejects = changeling.encode(changes, "xtdb")
    assert rejects.num_rows == 0
    assert sorted(written["value"].to_pylist()) == sorted(EVENTS)

    metas = changeling.decode(EVENTS, "xtdb")[0]["meta"].to_pylist()
    users = made.pipeline.changes("users", 400)
    assert sorted(users["meta"].to_pylist()) == sorted(meta for meta in metas if '"table":"users"' in meta)
    for moment in made.pipeline.history("users", users["key"][0].as_py()):
        assert moment.row.column("meta")[0].as_py() in metas


def test_the_history_of_events_that_lack_members(spark: SparkSession, tmp_path: Path) -> None:
    """The last event's template is as versions before wrote it: it names members that the event lacked."""
    lacking = [
        '{"before":null,"after":"{\\"_id\\":\\"u1\\",\\"n\\":NUMBER}",'
        '"source":{"db":"d","table":"users","tx_id":NUMBER},"op":"c","ts_ms":null,'
        '"transaction":{"id":"NUMBER","total_order":NUMBER,"data_collection_order":0}}'.replace("NUMBER", number)
        for number in "567"
    ]
    lacking[1] = lacking[1].replace('"tx_id":6', '"tx_id":6,"ts_ms":null')
    made = shop(tmp_path)
    made.write("1.json", *lacking)
    made.pipeline.run(once=True)
    left_out = '"source.tx_id":"position.0"'
    assert all(left_out in meta for meta in made.table(CHANGES)["meta"].to_pylist())
    lake_of(load(made.file)).sql(
        f"""UPDATE lake.shop.changes SET meta = replace(meta, '{left_out}',
        '"source.ts_ms":"commit_time.ms",{left_out},"source.system_time":"commit_time.ms"') WHERE position LIKE '017%'"""
    )
    whole = [json.dumps({"source": json.loads(one)["source"]}, separators=(",", ":")) for one in lacking]
    moments = made.pipeline.history("users", '{"_id":"u1"}')
    assert [moment.row.column("meta")[0].as_py() for moment in moments] == whole
    written, rejects = changeling.encode(made.pipeline.changes("users", 10), "xtdb")
    assert rejects.num_rows == 0
    assert written["value"].to_pylist() == [one.encode() for one in lacking]
