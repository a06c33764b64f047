"""Every MODE with every FORMAT of YDB over one history, and what options and restarts mean for records."""

import json
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from changeling.model.errors import UsageError
from tests.feeds.exact_json import exact
from tests.log.lakes import Shop
from tests.replicas.shops import bus, item

pytestmark = pytest.mark.usefixtures("spark")

MODES = ("KEYS_ONLY", "UPDATES", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES")
FORMATS = {"json": "JSON", "deb": "DEBEZIUM_JSON", "dyn": "DYNAMODB_STREAMS_JSON"}
OLD = {"name": "a1", "n": 1}
NEW = {"name": "z", "n": 1}
ADDED = {"name": "new", "n": None}
GONE = {"name": "a2", "n": 2}
HISTORY: list[tuple[int, dict[str, Any] | None, dict[str, Any] | None, dict[str, Any]]] = [
    (101, None, ADDED, ADDED),
    (1, OLD, NEW, {"name": "z"}),
    (2, GONE, None, {}),
]
"""Key, row before, row after, and what was updated."""


def records(made: Shop, feed: str) -> list[Any]:
    return [json.loads(record.value or b"") for record in made.pipeline.read_feed(feed)]


def shown(mode: str) -> tuple[bool, bool]:
    """Whether a mode shows rows as they were, and as they are."""
    return mode in ("OLD_IMAGE", "NEW_AND_OLD_IMAGES"), mode in ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")


def in_json(mode: str) -> list[Any]:
    old, new = shown(mode)
    made = []
    for key, before, after, updated in HISTORY:
        record: dict[str, Any] = {"key": [key]}
        record["erase" if after is None else "update"] = updated if mode == "UPDATES" else {}
        made.append(
            record
            | ({"oldImage": before} if old and before is not None else {})
            | ({"newImage": after} if new and after is not None else {})
        )
    return made


def in_debezium(mode: str, stamps: list[list[int]]) -> list[Any]:
    old, new = shown(mode)
    made = []
    for (key, before, after, _), (step, number) in zip(HISTORY, stamps, strict=True):
        created = before is None and mode == "NEW_AND_OLD_IMAGES"
        source = {
            "connector": "ydb",
            "version": "1.0.0",
            "step": step,
            "txId": number,
            "ts_ms": step,
            "snapshot": False,
        }
        payload: dict[str, Any] = {"op": "d" if after is None else "c" if created else "u", "source": source}
        if old and before is not None:
            payload["before"] = {"id": key, **before}
        if new and after is not None:
            payload["after"] = {"id": key, **after}
        made.append({"payload": payload})
    return made


def attributes(key: int, row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    found = {"id": {"N": str(key)}, "name": {"S": row["name"]}}
    return found if row["n"] is None else {**found, "n": {"N": str(row["n"])}}


def in_dynamodb(mode: str) -> list[Any]:
    old, new = shown(mode)
    made = []
    for number, (key, before, after, _) in enumerate(HISTORY, 1):
        created = before is None and mode == "NEW_AND_OLD_IMAGES"
        stream: dict[str, Any] = {
            "Keys": {"id": {"N": str(key)}},
            "SequenceNumber": f"{number:021d}",
            "StreamViewType": "KEYS_ONLY" if mode == "UPDATES" else mode,
        }
        if old and before is not None:
            stream["OldImage"] = attributes(key, before)
        if new and after is not None:
            stream["NewImage"] = attributes(key, after)
        name = "REMOVE" if after is None else "INSERT" if created else "MODIFY"
        made.append((name, stream))
    return made


def in_dataworks() -> list[Any]:
    made = []
    for number, (key, before, after, _) in enumerate(HISTORY, 1):
        kind = "I" if before is None else "D" if after is None else "U"
        meta = {
            "_sequence_id_": str(number),
            "_operation_type_": kind,
            "_execute_time_": 1_700_000_002_000 + number * 1000,
        }
        halves = [("Y", "N", before), ("N", "Y", after)]
        made += [
            {**meta, "_before_image_": old, "_after_image_": new, "id": key, **row}
            for old, new, row in halves
            if row is not None
        ]
    return made


def test_modes_formats_options_and_restarts(tmp_path: Path) -> None:
    made = bus(tmp_path)
    made.write(
        "1.json",
        *(
            item(1, "insert", {"id": number, "name": f"a{number}", "n": number}, order=number)
            for number in range(1, 33)
        ),
    )
    made.pipeline.run(once=True)
    adds = [
        f"ADD CHANGEFEED {short}_{mode} WITH (FORMAT = '{format}', MODE = '{mode}')"
        for short, format in FORMATS.items()
        for mode in MODES
    ]
    made.pipeline.sql(
        f"""ALTER TABLE users {", ".join(adds)},
        ADD CHANGEFEED stamped WITH (FORMAT = 'JSON', MODE = 'UPDATES', VIRTUAL_TIMESTAMPS = TRUE),
        ADD CHANGEFEED four WITH (FORMAT = 'JSON', MODE = 'NEW_IMAGE', VIRTUAL_TIMESTAMPS = TRUE, INITIAL_SCAN = TRUE,
            TOPIC_MIN_ACTIVE_PARTITIONS = 4),
        ADD CHANGEFEED regional WITH (FORMAT = 'DYNAMODB_STREAMS_JSON', MODE = 'NEW_IMAGE', AWS_REGION = 'ru-central1',
            TOPIC_MIN_ACTIVE_PARTITIONS = 4, INITIAL_SCAN = TRUE),
        ADD CHANGEFEED hour WITH (FORMAT = 'JSON', MODE = 'UPDATES', RETENTION_PERIOD = Interval('PT1H')),
        ADD CHANGEFEED month WITH (FORMAT = 'JSON', MODE = 'UPDATES', RETENTION_PERIOD = 'P30D'),
        ADD CHANGEFEED brief WITH (FORMAT = 'JSON', MODE = 'UPDATES', RETENTION_PERIOD = 'PT1S'),
        ADD CHANGEFEED rows WITH (FORMAT = 'dataworks', MODE = 'NEW_AND_OLD_IMAGES')"""
    )
    with pytest.raises(UsageError, match="30 days"):
        made.pipeline.sql(
            "ALTER TABLE users ADD CHANGEFEED no WITH (FORMAT='JSON', MODE='UPDATES', RETENTION_PERIOD='P31D')"
        )
    kept = {feed.name: (feed.retention, feed.partitions) for feed in made.pipeline.feeds()}
    assert kept["stamped"] == (86_400, 1)
    assert (kept["hour"][0], kept["month"][0], kept["brief"][0]) == (3600, 30 * 86_400, 1)
    made.pipeline.run(once=True)
    # Only changes behind the creation; the two with a scan have the rows of then.
    assert {feed.name for feed in made.pipeline.feeds() if records(made, feed.name)} == {"four", "regional"}
    assert {tuple(record["ts"]) for record in records(made, "four")} == {(1_700_000_001_000, 0)}

    made.write(
        "2.json",
        item(3, "insert", {"id": 101, **ADDED}),
        item(4, "update", {"id": 1, "name": "z"}, {"id": 1}),
        item(5, "delete", None, {"id": 2}),
    )
    made.pipeline.run(once=True)
    stamps = [record["ts"] for record in records(made, "stamped")]
    assert stamps == [[1_700_000_003_000, 1], [1_700_000_004_000, 2], [1_700_000_005_000, 3]]
    for mode in MODES:
        assert exact(records(made, f"json_{mode}")) == exact(in_json(mode))
        assert exact(records(made, f"deb_{mode}")) == exact(in_debezium(mode, stamps))
        found = []
        for record in records(made, f"dyn_{mode}"):
            assert list(record) == ["awsRegion", "dynamodb", "eventID", "eventName", "eventSource", "eventVersion"]
            assert (record["awsRegion"], record["eventSource"], record["eventVersion"]) == (
                "",
                "ydb:document-table",
                "1.0",
            )
            del record["dynamodb"]["ApproximateCreationDateTime"]
            found.append((record["eventName"], record["dynamodb"]))
        assert found == in_dynamodb(mode)
    keys = [json.loads(record.key or b"") for record in made.pipeline.read_feed("deb_KEYS_ONLY")]
    assert keys == [{"payload": {"id": key}} for key, *_ in HISTORY]
    # Members are in the order of the documentation.
    assert [list(row.items()) for row in records(made, "rows")] == [list(row.items()) for row in in_dataworks()]
    # Commit times of years ago are no reason to expire; a second after publishing is.
    assert len(records(made, "hour")) == 3
    sleep(1)
    assert records(made, "brief") == []
    assert [row["published"] for row in made.pipeline.status() if row["name"] == "brief"] == [3]

    # The numbers of records continue after a restart, and every change of every key is in one partition.
    made.write(
        "3.json",
        *(item(6, "update", {"id": number, "name": "again"}, {"id": number}, order=number) for number in range(3, 33)),
    )
    made.pipeline.run(once=True)
    numbers = [int(record["_sequence_id_"]) for record in records(made, "rows")]
    # Both rows of an update are one event.
    assert len(numbers) == 1 + 2 + 1 + 2 * 30
    assert sorted(numbers) == numbers
    assert len(set(numbers)) == 33
    events = records(made, "regional")
    assert len({record["eventID"] for record in events}) == len(events) == 32 + 3 + 30
    assert {record["awsRegion"] for record in events} == {"ru-central1"}
    where: dict[int, set[int]] = {}
    for record in made.pipeline.read_feed("four"):
        where.setdefault(json.loads(record.value or b"")["key"][0], set()).add(record.partition)
    assert all(len(partitions) == 1 for partitions in where.values())
    assert set().union(*where.values()) == {0, 1, 2, 3}
    # By their stamps, records of all partitions replay to the replica; above a stamp are the changes after it.
    ordered = sorted(records(made, "four"), key=lambda record: record["ts"])
    assert [record["key"][0] for record in ordered[32:35]] == [key for key, *_ in HISTORY]
    rows = {record["key"][0]: record.get("newImage") for record in ordered}
    found_rows = made.pipeline.current("users")
    assert found_rows is not None
    assert {key: row for key, row in rows.items() if row is not None} == {
        row.pop("id"): row for row in found_rows[0].to_pylist()
    }
    assert len([record for record in ordered if record["ts"] > stamps[-1]]) == 30
    for feed in made.pipeline.feeds():
        assert not made.pipeline.verify_feed(feed.name).faults, feed.name
