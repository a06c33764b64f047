"""Arcion's nation and region (seed 000): the life of a row in any order of arrival, NULL against not mentioned, snapshots."""

import itertools
import json

import pytest
from pyspark.sql import SparkSession

from tests.log.lakes import Shop, shop
from tests.replicas.seeds import Contents, Row, contents, now, records, source, then

ORDERS = list(itertools.permutations(range(3)))
"""In which order insert, update and delete of a region arrive: each of regions 10 to 15 has another one."""
COLUMNS = {"r_comment": "string", "r_name": "string", "r_regionkey": "int32"}
NATION = {"n_comment": "string", "n_nationkey": "string", "n_regionkey": "string", "n_name": "string"}
REGION = {"r_regionkey": "string", "r_comment": "string", "r_name": "string"}
NATIVE = {"r_regionkey": "string", "r_name": "string", "r_comment": "string"}


def life(key: int) -> list[str]:
    """The seed's rows of CSV, of a region of the test's choice."""
    return [
        line.replace(",10,NULL,1,", f",{key},NULL,1,").replace(",NULL,10,2,", f",NULL,{key},2,")
        for line in records("arcion-csv/seed-realtime-region")
    ]


Values = dict[str, tuple[str, str, int]]
"""New, old and exists of each column."""
MENTIONED: list[tuple[str, Values]] = [
    ("I", {"r_comment": ("a", "NULL", 1), "r_name": ("b", "NULL", 1), "r_regionkey": ("1", "NULL", 1)}),
    ("I", {"r_comment": ("c", "NULL", 1), "r_name": ("d", "NULL", 1), "r_regionkey": ("2", "NULL", 1)}),
    # Region 1 gets a NULL comment and keeps its name; region 2 keeps its comment, and its name becomes NULL.
    ("U", {"r_comment": ("NULL", "NULL", 1), "r_name": ("NULL", "NULL", 0), "r_regionkey": ("NULL", "1", 2)}),
    ("U", {"r_comment": ("NULL", "NULL", 0), "r_name": ("NULL", "d", 3), "r_regionkey": ("2", "2", 3)}),
]
KEPT: list[Row] = [{"r_regionkey": 1, "r_name": "b"}, {"r_regionkey": 2, "r_comment": "c"}]


def cursor(place: int) -> str:
    return json.dumps({"timestamp": 1620788100000 + place, "dscId": 1620787053906, "mutId": place, "partNum": 1})


def of_csv(place: int) -> str:
    """One of the changes above as a row of a realtime file."""
    op, carried = MENTIONED[place]
    values = [str(part) for name in COLUMNS for part in carried[name]]
    return ",".join([*values, op, *(f'"{text}"' for text in (cursor(place).replace('"', '""'), "{}"))])


def of_json(place: int) -> str:
    """The same as a record of a JSON file."""
    op, columns = MENTIONED[place]
    carried = json.loads(records("arcion-json/realtime-region")[0])
    carried |= {"opType": op, "cursor": cursor(place)}
    for number, side in enumerate(("after", "before", "exists")):
        carried[side] = {name: str(parts[number]).replace("NULL", "null") for name, parts in columns.items()}
    return json.dumps(carried)


class Regions:
    """The pipeline, and what its replicas held after each of three runs."""

    def __init__(self, made: Shop) -> None:
        self.made = made
        self.found: list[dict[str, Contents]] = []

    def run(self, *tables: str) -> None:
        self.made.pipeline.run(once=True)
        self.found.append({table: now(self.made, table) for table in tables})


@pytest.fixture(scope="module")
def regions(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Regions:
    key = {"key": ["r_regionkey"]}
    snapshot = {"columns": dict(reversed(COLUMNS.items())), "options": {"mode": "snapshot"}}
    made = shop(
        tmp_path_factory.mktemp("arcion"),
        source("lines", "arcion-csv", table="lines.region", columns=COLUMNS, **key),
        source("bare", "arcion-csv", table="bare.region", **snapshot, **key),
        source("records", "arcion-json"),
        source("native", "arcion-native", table="tpch.region", **key),
        source("pages", "arcion-native", table="paged.region", **key),
        tables=[
            {"name": "nation", "source": "records", "key": ["n_nationkey"]},
            {"name": "region", "source": "records", **key},
        ],
    )
    regions = Regions(made)
    snapshots, realtime = records("arcion-native/sample-snapshot"), records("arcion-native/sample-realtime-region")
    made.write("bare/0", *records("arcion-csv/seed-snapshot-line"))
    for place in range(3):
        made.write(f"pages/0-{place}", json.dumps({"r_regionkey": str(place), "r_name": "n", "r_comment": "c"}))
    deleted = {
        **json.loads(realtime[1]),
        "tableName": None,
        "before": {"r_regionkey": "2", "r_name": "n", "r_comment": "c"},
    }
    made.write("pages/1", json.dumps(deleted))
    for step, mentioned in enumerate(((0,), (1,), (2, 3))):
        lives = [life(10 + place)[order[step]] for place, order in enumerate(ORDERS)]
        made.write(f"lines/{step}", *lives, *map(of_csv, mentioned))
        golden = [records(f"arcion-json/{case}")[step] for case in ("snapshot-nation", "realtime-region")]
        made.write(f"records/{step}", *golden, *map(of_json, mentioned))
        made.write(f"native/{step}", *(snapshots, realtime[2:], realtime[:2])[step])
        regions.run("lines.region", "nation", "io_blitzz.region", "tpch.region")
    return regions


def of_life(key: int, seen: set[int]) -> list[Row]:
    """A region after some of its three changes."""
    if 2 in seen or not seen:
        return []
    inserted = {"r_name": "India", "r_comment": "India"} if 0 in seen else {}
    return [{"r_regionkey": key, **inserted, **({"r_comment": "USA"} if 1 in seen else {})}]


@pytest.mark.parametrize("order", range(6), ids=lambda place: "".join("IUD"[step] for step in ORDERS[place]))
def test_000_19_the_csv_samples_are_one_row_s_life_in_any_order_of_arrival(order: int, regions: Regions) -> None:
    key = 10 + order
    for step in range(3):
        found = regions.found[step]["lines.region"]
        rows = [row for row in found.rows if row["r_regionkey"] == key]
        expected = contents(COLUMNS, of_life(key, set(ORDERS[order][: step + 1])))
        assert Contents(found.columns, rows) == expected, f"after run {step + 1}"


def test_000_34_to_000_36_nation_is_inserted_updated_and_deleted_by_whole_rows(regions: Regions) -> None:
    first = {"n_comment": "Testing comment", "n_nationkey": "100", "n_regionkey": "2", "n_name": "Testing name"}
    states: list[list[Row]] = [[first], [{**first, "n_name": "Updating test name"}], []]
    assert [found["nation"] for found in regions.found] == [contents(NATION, rows) for rows in states]


def test_000_37_to_000_39_region_is_inserted_updated_in_part_and_deleted_by_its_key(regions: Regions) -> None:
    first = {"r_regionkey": "10", "r_comment": "India", "r_name": "India"}
    states: list[list[Row]] = [[first], [{**first, "r_comment": "USA"}], []]
    for found, rows in zip(regions.found, states, strict=True):
        region = found["io_blitzz.region"]
        own = [row for row in region.rows if row["r_regionkey"] == "10"]
        assert Contents(region.columns, own) == contents(REGION, rows)


def test_000_28_as_of_the_time_of_the_query(regions: Regions) -> None:
    found = then(regions.made, "nation", as_of="2022-07-11T05:22:33.999Z")
    assert found == regions.found[1]["nation"]


def test_000_10_a_null_that_was_given_is_written_and_000_11_a_column_not_mentioned_keeps_its_value(
    regions: Regions,
) -> None:
    assert regions.found[-1]["lines.region"] == contents(COLUMNS, KEPT)
    texts = [{**carried, "r_regionkey": str(carried["r_regionkey"])} for carried in KEPT]
    assert regions.found[-1]["io_blitzz.region"] == contents(REGION, texts)


def test_a_snapshot_is_the_base_of_the_realtime_changes(regions: Regions) -> None:
    america = {"r_regionkey": "1", "r_name": "AMERICA", "r_comment": "Test_Replication"}
    asia = {"r_regionkey": "2", "r_name": "ASIA", "r_comment": "Testing_Replication"}
    seven = {"r_regionkey": "7", "r_name": "Test_Region", "r_comment": "Test_Comment"}
    states = ([america, {"r_regionkey": "2"}], [america, asia], [asia, seven])
    assert [found["tpch.region"] for found in regions.found] == [contents(NATIVE, rows) for rows in states]


def test_a_snapshot_in_several_files_is_the_base_as_well(regions: Regions) -> None:
    left = [{"r_regionkey": key, "r_name": "n", "r_comment": "c"} for key in "01"]
    assert now(regions.made, "paged.region") == contents(NATIVE, left)


def test_000_03_a_line_of_a_snapshot_is_a_row(regions: Regions) -> None:
    africa = {"r_regionkey": 0, "r_name": " AFRICA ", "r_comment": "AFRICA"}
    columns = {"r_regionkey": "int32", "r_name": "string", "r_comment": "string"}
    assert now(regions.made, "bare.region") == contents(columns, [africa])
