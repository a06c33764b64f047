"""YDB's rows in each mode of a changefeed (seed 004): those that show values make the table, the others show which rows are stale."""

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.log.lakes import Shop, shop
from tests.replicas.seeds import UTC as MOMENT
from tests.replicas.seeds import Contents, Row, contents, message, messages, now, quarantined, records, source

MODES = {"updates": "UPDATES", "new": "NEW_IMAGE", "both": "NEW_AND_OLD_IMAGES"}
"""The tables whose feeds show values."""
COLUMNS = {"id": "int64", "text": "string", "number": "int64"}
STEPS: list[list[tuple[int, str, Row | None, Row | None]]] = [
    [(id, "update", None, {"text": f"row {id}", "number": id * 10}) for id in (1, 2, 3, 4)],
    [
        (1, "update", {"text": "row 1", "number": 10}, {"text": None}),
        # REPLACE INTO: a column that it does not mention becomes NULL.
        (2, "reset", {"text": "row 2", "number": 20}, {"text": "replaced"}),
        (3, "erase", {"text": "row 3", "number": 30}, None),
        # Nothing of row 4 changed, and row 5 has nothing but its key.
        (4, "update", {"text": "row 4", "number": 40}, {}),
        (5, "update", None, {}),
    ],
]
"""What happened to rows, batch after batch: their keys, the operation, the row before, and what was written."""
ROWS: list[list[Row]] = [
    [{"id": id, "text": f"row {id}", "number": id * 10} for id in (1, 2, 3, 4)],
    [
        {"id": 1, "number": 10},
        {"id": 2, "text": "replaced"},
        {"id": 4, "text": "row 4", "number": 40},
        {"id": 5},
    ],
]


def feed_records(mode: str, step: int) -> list[str]:
    """The records of a step as a feed has them in a mode; one transaction a step."""
    made = []
    for id, op, before, written in STEPS[step]:
        after = None if written is None else {**(before or {} if op == "update" else {}), **written}
        record: Row = {"key": [id], op: written if mode == "UPDATES" and written else {}}
        if mode.startswith("NEW") and after is not None:
            record["newImage"] = after
        if mode == "NEW_AND_OLD_IMAGES" and before is not None:
            record["oldImage"] = before
        made.append(json.dumps({**record, "ts": [1670792400890 + step, 562949953607163 + step]}))
    return made


def touched(id: int, stamp: int, **more: Any) -> str:
    """An update without the row after it, unless `more` has it."""
    return json.dumps({"key": [id], "update": {}, **more, "ts": [stamp, 1]})


class Feeds:
    """The pipeline, and after each run its tables and the rows that are stale in them."""

    def __init__(self, made: Shop) -> None:
        self.made = made
        self.found: list[dict[str, Contents]] = []
        self.stale: list[dict[str, list[str]]] = []

    def run(self) -> None:
        self.made.pipeline.run(once=True)
        tables = (*MODES, "known", "unknown", "Root.scanned")
        self.found.append({table: now(self.made, table) for table in tables})
        names = ("known", "unknown", "scanned")
        self.stale.append(
            {name: [key for key, column, _ in quarantined(self.made, name) if column is None] for name in names}
        )


SAMPLES = {
    "update": ({"id": "uint32", "name": "string", "payload": "string", "date": "date"}, ["id", "name"]),
    "images": (
        {**dict.fromkeys("abc", "uint64"), "textColumn": "string", "intColumn": "int32", "boolColumn": "bool"},
        ["a", "b", "c"],
    ),
    "stamped": ({"id": "uint64", "created": "timestamptz", "customer": "string"}, ["id"]),
}
"""The tables of the seed's own records: columns and key."""
CASES = {
    "update": ("ydb-json/seed-update", "ydb-json/seed-erase"),
    "images": ("ydb-json/seed-row-snapshots",),
    "stamped": ("ydb-json/seed-virtual-timestamps",),
}
KEYS_ONLY = [json.loads(line) for line in records("ydb-json/sample-keys-only-log")]
WITHOUT_VALUES: list[list[tuple[str, str]]] = [
    [
        *(("known", touched(id, 1, newImage={"value": id})) for id in (1, 2, 3, 4)),
        *(("unknown", json.dumps({**record, "ts": [1, 1]})) for record in KEYS_ONLY[:3]),
    ],
    [
        ("known", touched(1, 2)),
        ("known", touched(2, 2, oldImage={"value": 2})),
        ("known", touched(4, 2)),
        ("unknown", json.dumps({**KEYS_ONLY[3], "ts": [2, 1]})),
    ],
    [
        # Values again, an erase, and an older change of a row that was written again since.
        ("known", touched(1, 4, newImage={"value": 10})),
        ("known", json.dumps({"key": [4], "erase": {}, "ts": [4, 1]})),
        ("known", touched(1, 3)),
    ],
]
"""The records of a feed that shows no values, step by step; that of `known` showed them at first."""


@pytest.fixture(scope="module")
def feeds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feeds:
    of_mode = [
        source(name, "ydb-json", table=name, key=["id"], columns=COLUMNS, options={"mode": mode})
        for name, mode in MODES.items()
    ]
    made = shop(
        tmp_path_factory.mktemp("ydb"),
        *of_mode,
        source("keys", "ydb-json", carrier="kcat", key=["id"], options={"mode": "KEYS_ONLY"}),
        source("old", "ydb-debezium", carrier="kcat", options={"mode": "OLD_IMAGE"}),
        source("samples", "ydb-json", carrier="kcat"),
        tables=[
            {"name": name, "source": "samples", "columns": columns, "key": key}
            for name, (columns, key) in SAMPLES.items()
        ],
    )
    samples = [line for name, cases in CASES.items() for case in cases for line in messages(case, f"/{name}/feed")]
    made.write("samples/0", *samples)
    scan, log = (messages(f"ydb-debezium/old-image-{part}", "Root/scanned/feed") for part in ("scan", "log"))
    feeds = Feeds(made)
    for step, old in enumerate((scan, log[3:4], log[6:])):
        for name, mode in MODES.items():
            if step < len(STEPS):
                made.write(f"{name}/{step}", *feed_records(mode, step))
        lines = enumerate(WITHOUT_VALUES[step])
        made.write(f"keys/{step}", *(message(f"/{name}/feed", line, place) for place, (name, line) in lines))
        made.write(f"old/{step}", *old)
        feeds.run()
    return feeds


@pytest.mark.parametrize("table", MODES)
def test_every_mode_with_values_makes_the_same_table(table: str, feeds: Feeds) -> None:
    assert [found[table] for found in feeds.found[:2]] == [contents(COLUMNS, rows) for rows in ROWS]


def test_004_35_to_004_38_the_rows_of_the_samples(feeds: Feeds) -> None:
    update = {"id": 1, "name": "one", "payload": "lorem ipsum", "date": date(2022, 2, 22)}
    columns = {"id": "int64", "name": "string", "payload": "string", "date": "date32[day]"}
    assert now(feeds.made, "update") == contents(columns, [update])
    images = {"a": 1, "b": 2, "c": 3, "textColumn": "value1", "intColumn": 101, "boolColumn": True}
    columns = {
        **dict.fromkeys("abc", "decimal128(20, 0)"),
        "textColumn": "string",
        "intColumn": "int32",
        "boolColumn": "bool",
    }
    assert now(feeds.made, "images") == contents(columns, [images])
    stamped = {"id": 1, "created": datetime(2022, 12, 12, tzinfo=UTC), "customer": "Name123"}
    columns = {"id": "decimal128(20, 0)", "created": MOMENT, "customer": "string"}
    assert now(feeds.made, "stamped") == contents(columns, [stamped])


def test_a_change_without_values_leaves_the_row_and_marks_it_stale_until_it_is_written_again(feeds: Feeds) -> None:
    values = {"value": "int64", "id": "int64"}
    first: list[Row] = [{"id": id, "value": id} for id in (1, 2, 3, 4)]
    last: list[Row] = [{"id": 1, "value": 10}, *first[1:3]]
    assert [found["known"] for found in feeds.found] == [contents(values, rows) for rows in (first, first, last)]
    assert [stale["known"] for stale in feeds.stale] == [[], ['{"id":1}', '{"id":2}', '{"id":4}'], ['{"id":2}']]
    (status,) = (row for row in feeds.made.pipeline.status() if (row["kind"], row["name"]) == ("table", "known"))
    assert (status["stale"], status["aside"]) == (1, 0)


def test_rows_that_only_a_feed_without_values_mentions_are_counted_and_not_made_up(feeds: Feeds) -> None:
    assert [found["unknown"] for found in feeds.found] == [contents({"id": "int64"}, [])] * 3
    keys = [f'{{"id":{id}}}' for id in (1, 2, 3)]
    assert [stale["unknown"] for stale in feeds.stale] == [keys, keys[1:], keys[1:]]


def test_a_scan_of_an_old_image_feed_makes_rows_that_its_changes_leave_stale(feeds: Feeds) -> None:
    columns = {"key": "int64", "value": "int64"}
    assert [found["Root.scanned"] for found in feeds.found] == [
        *[contents(columns, [{"key": 1, "value": 10}])] * 2,
        contents(columns, []),
    ]
    assert [stale["scanned"] for stale in feeds.stale] == [[], ['{"key":1}'], []]
