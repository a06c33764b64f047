"""Statements that the log can show, one a test; each name begins with its number in the list of statements."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeling.log import log_tables
from changeling.model.line import lines
from tests.golden.test_golden import FOLDER, exact, options_of
from tests.log.commands import printed, printed_objects, run_once
from tests.log.lakes import Shop
from tests.log.lakes import log_only as shop

REGION, NATION = "arcion-json/realtime-region", "arcion-json/snapshot-nation"
EVENTS = ("create", "update", "delete", "complex-types", "sql-insert", "transaction")
CASES = {
    "nation": (NATION,),
    "region": (REGION,),
    "exists": ("arcion-json/exists",),
    "rows": ("dataworks/sequence-ids-order-as-numbers",),
    "events": tuple(f"xtdb/seed-{name}" for name in EVENTS),
    "items": tuple(f"transferia/seed-{name}" for name in ("insert", "update", "delete", "ddl", "largest-id-and-time")),
    "feed": ("ydb-json/seed-virtual-timestamps",),
}
"""The sources of the pipeline, and the published records that each reads."""
WRONG = {
    "nation": [b'{"opType":"Z","cursor":"{}","exists":{}}'],
    "rows": [
        b'{"_sequence_id_":"1","_operation_type_":"X","_execute_time_":1,"_before_image_":"N","_after_image_":"Y","id":1}',
        b'{"_sequence_id_":"1","_operation_type_":"I","_execute_time_":1,"_before_image_":"Y","_after_image_":"N","id":1}',
    ],
    "items": [b'{"ID":1,"CommitTime":1,"Kind":"MERGE","Table":"t","Values":[]}'],
    "feed": [b'{"key":[1],"update":{},"erase":{}}', b'{"key":[1]}'],
}
"""Records that no source may send."""


@dataclass(frozen=True)
class Seeds:
    """The pipeline, and its log as lines of JSON, by source and position."""

    made: Shop
    log: dict[str, list[dict[str, Any]]]


def sources() -> Iterator[dict[str, Any]]:
    for name, cases in CASES.items():
        declared = options_of(FOLDER / cases[0], "read")
        key = (
            {"key": declared["key"].split(",") if isinstance(declared["key"], str) else declared["key"]}
            if "key" in declared
            else {}
        )
        table = {"table": declared["table"]} if "table" in declared else {}
        form = cases[0].split("/")[0]
        yield {"name": name, "type": "files", "path": f"in/{name}/*", "format": form, **table, **key}
    yield {"name": "lag", "type": "files", "path": "in/lag", "format": "arcion-json", "key": ["n_nationkey"]}


@pytest.fixture(scope="module")
def seeds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Seeds:
    made = shop(tmp_path_factory.mktemp("seeds"), *sources())
    for name, cases in CASES.items():
        for number, case in enumerate(cases):
            made.write(f"{name}/{number}", *(FOLDER / case / "input.jsonl").read_bytes().splitlines())
        if name in WRONG:
            made.write(f"{name}/wrong", *WRONG[name])
    made.write("lag", (FOLDER / NATION / "input.jsonl").read_bytes().splitlines()[0])
    # Some records are rejected.
    assert run_once(made) == 3
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in (*CASES, "lag")}
    for batch in made.table(log_tables.CHANGES).to_batches():
        for line in map(exact, lines(batch)):
            found[line["source"]].append(line)
    return Seeds(made, {name: sorted(rows, key=lambda row: str(row["position"])) for name, rows in found.items()})


def published(name: str, folder: Path) -> list[dict[str, Any]]:
    """The changes that are written down for the records of a source, in the order of their positions."""
    found = []
    for ordinal, case in enumerate(CASES[name]):
        for text in (FOLDER / case / "changes.jsonl").read_text().splitlines():
            change = exact(text)
            record = int(change["origin"]["record"])
            origin = exact(json.dumps({"file": f"{folder}/in/{name}/{ordinal}", "ordinal": ordinal, "record": record}))
            found.append({**change, "source": name, "origin": origin})
    return sorted(found, key=lambda row: str(row["position"]))


def without_numbers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines without the number of their schema, which `decode` cannot know."""
    return [{name: row[name] for name in row if name != "schema_id"} for row in rows]


def parts(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.parametrize("name", CASES)
def test_003_01_changes_of_every_store_have_one_structure(name: str, seeds: Seeds) -> None:
    assert seeds.made.table(log_tables.CHANGES).column_names == [
        column for column in log_tables.CHANGES.columns.names if column != "ingested_at"
    ]
    assert without_numbers(seeds.log[name]) == without_numbers(published(name, seeds.made.folder))


def test_000_26_and_000_27_cursors_order_the_changes_and_000_28_tell_when_the_query_ran(seeds: Seeds) -> None:
    assert parts(seeds.log["nation"], "op", "position", "commit_time") == [
        ("insert", "0210.047461.011", "2022-07-11T05:21:43Z"),
        ("update", "0210.049149.011", "2022-07-11T05:22:26Z"),
        ("delete", "0210.049872.011", "2022-07-11T05:22:34Z"),
    ]
    assert parts(seeds.log["region"], "op", "position", "commit_time") == [
        ("insert", "131620787053905.06326118.011", "2021-05-12T02:54:48.431Z"),
        ("update", "131620787053905.06326190.011", "2021-05-12T02:54:50.478Z"),
        ("delete", "131620787053905.06326250.011", "2021-05-12T02:54:52.539Z"),
    ]


def test_000_29_status_shows_the_lag_of_the_source(seeds: Seeds) -> None:
    call = ("status", "--pipeline", str(seeds.made.file))
    (status,) = (row for row in printed_objects(seeds.made, *call) if (row["kind"], row["name"]) == ("source", "lag"))
    assert status["extraction_lag_seconds"] == 1.088
    lines = printed(seeds.made, *call).splitlines()
    (place,) = (place for place, line in enumerate(lines) if "to extraction" in line)
    header, row = lines[place], next(line for line in lines[place:] if line.split()[:1] == ["lag"])
    end = header.index("to extraction") + len("to extraction")
    assert row[:end].endswith(" 1.088 s")


def test_001_07_sequence_ids_order_records(seeds: Seeds) -> None:
    assert parts(seeds.log["rows"], "transaction", "position") == [
        ({"id": number, "order": None, "total": None}, place)
        for number, place in (("007", "017.011"), ("9", "019.011"), ("10", "0210.011"))
    ]


def test_002_10_the_table_and_002_11_002_15_002_16_the_transaction_of_three_operations(seeds: Seeds) -> None:
    users, orders = ({"catalog": "mydb", "schema": None, "name": name} for name in ("users", "orders"))
    operations = [("insert", users), ("update", users), ("delete", orders)]
    assert parts(seeds.log["events"][-3:], "op", "table", "transaction", "position") == [
        (op, table, exact(f'{{"id":"12350","order":{order},"total":12350}}'), f"0512350.01{order}")
        for order, (op, table) in enumerate(operations)
    ]


def test_002_23_transaction_ids_order_over_all_tables_though_clocks_run_backwards(seeds: Seeds) -> None:
    assert [(row["transaction"]["id"], row["table"]["name"], row["commit_time"]) for row in seeds.log["events"]] == [
        ("12345", "users", "2023-12-25T11:55:30.123Z"),
        ("12346", "users", "2023-12-26T12:50:15.456Z"),
        ("12347", "users", "2023-12-27T12:50:15.789Z"),
        ("12348", "orders", "2023-12-25T16:50:00Z"),
        ("12349", "products", "2023-12-25T18:05:00Z"),
        ("12350", "users", "2023-12-25T19:20:00Z"),
        ("12350", "users", "2023-12-25T19:20:00Z"),
        ("12350", "orders", "2023-12-25T19:20:00Z"),
    ]


def test_003_02_ids_have_64_bits_and_003_04_times_are_nanoseconds(seeds: Seeds) -> None:
    smaller, largest = seeds.log["items"][-2:]
    assert (smaller["position"], largest["position"]) == ("2018446744073709551614", "2018446744073709551615")
    assert (smaller["meta"]["CommitTime"], smaller["commit_time"]) == (exact("18446744073709551615"), None)
    assert largest["commit_time"] == "2262-04-11T23:47:16.854775807Z"
    rows = seeds.made.table(log_tables.CHANGES).to_pylist()
    assert [row["commit_time"] for row in rows if row["position"] == largest["position"]] == [2**63 - 1]


def test_003_07_ddl_is_kept_in_the_log_in_its_place(seeds: Seeds) -> None:
    rows = seeds.log["items"]
    assert [row["position"] for row in rows] == [
        *(f"01{number}" for number in range(1, 10)),
        "0210",
        *("2018446744073709551614", "2018446744073709551615"),
    ]
    assert [(row["op"], row["meta"]["statement"]) for row in rows[8:10]] == [
        ("ddl", "ALTER TABLE orders ADD COLUMN x int"),
        ("ddl", "DROP TABLE orders"),
    ]


def test_003_15_schema_ids_are_distinct_and_every_one_in_the_log_is_registered(seeds: Seeds) -> None:
    numbers = seeds.made.table(log_tables.SCHEMAS)["id"].to_pylist()
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    used = {row["schema_id"] for row in seeds.made.log() if row["schema_id"] is not None}
    assert used
    assert used <= set(numbers)


def test_004_38_virtual_timestamps_are_positions(seeds: Seeds) -> None:
    (stamped,) = seeds.log["feed"]
    assert (stamped["position"], stamped["commit_time"]) == (
        "131670792400890.15562949953607163",
        "2022-12-11T21:00:00.890Z",
    )


def test_000_23_001_10_001_12_003_06_and_004_39_what_no_source_may_send_is_rejected(seeds: Seeds) -> None:
    kinds = "known: DDL, DELETE, INSERT, UPDATE"
    reasons = {
        "nation": ["unknown opType 'Z': Arcion has I, U and D"],
        "rows": [
            "unknown `_operation_type_` 'X': DataWorks has I, U and D",
            "`_before_image_` Y and `_after_image_` N do not go with operation type I: it has N and Y",
        ],
        "items": [f"unknown Kind 'MERGE'; {kinds}"],
        "feed": [
            "the record has update and erase: it must have exactly one, since they say what happened",
            "the record has none of update, reset, erase: it must have exactly one, since they say what happened",
        ],
    }
    found: dict[str, list[tuple[str, bytes, str]]] = {name: [] for name in reasons}
    for row in sorted(seeds.made.rejects(), key=lambda row: int(row["origin"]["record"])):
        found[row["source"]].append((row["origin"]["file"].rpartition("/")[2], row["raw"], row["reason"]))
    assert found == {
        name: [("wrong", raw, reason) for raw, reason in zip(WRONG[name], expected, strict=True)]
        for name, expected in reasons.items()
    }
