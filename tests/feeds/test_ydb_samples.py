"""What YDB's own tests expect of changefeeds comes out of ours: the same statements, the same options, the same records."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from changeling.formats.ydb_json.types import TYPES
from tests.feeds.exact_json import exact
from tests.feeds.ydb_statements import rows_of
from tests.log.lakes import Shop, shop

pytestmark = pytest.mark.usefixtures("spark")

SAMPLES = Path(__file__).parent / "samples" / "ydb"
SEED = Path(__file__).parents[1] / "golden" / "ydb-json" / "seed-row-snapshots" / "input.jsonl"
"""Seed 004's record with row snapshots."""
BEFORE = {"InitialScan", "InitialScanDebezium", "InitialScanAndResolvedTimestamps"}
"""The first statement of these samples ran before the changefeed was added."""
BETWEEN = {"AddColumn", "DisableStream"}
"""Something happened between the two statements of these."""
ANNOUNCED = {"AddColumn", "ResolvedTimestamps"}
"""The columns of these are given by records of the source."""
ALONE = {*BEFORE, *BETWEEN, "ResolvedTimestamps"}
START = 1_600_000_000_000


@dataclass(frozen=True)
class Sample:
    """One sample, and the table that its statements run on here: samples with the same statements have it in common."""

    name: str
    table: str
    said: Mapping[str, Any]
    columns: Mapping[str, str]
    """YDB's types by name, key columns first."""
    key: tuple[str, ...]

    @property
    def expected(self) -> list[Any]:
        if "pairs" in self.said:
            return [pair["expected_record"] for pair in self.said["pairs"]]
        return list(self.said["expected_records"])

    @property
    def statements(self) -> list[str]:
        return [pair["query"] for pair in self.said["pairs"]] if "pairs" in self.said else list(self.said["queries"])

    @property
    def rule(self) -> dict[str, Any]:
        if self.name in ANNOUNCED:
            return {"name": self.table, "source": "ydb", "key": list(self.key)}
        types = {name: str(TYPES.parse(kind)) for name, kind in self.columns.items()}
        return {"name": self.table, "source": "ydb", "key": list(self.key), "columns": types}

    @property
    def creation(self) -> str:
        given = {"FORMAT": f"'{self.said['format']}'", "MODE": f"'{self.said['mode']}'"}
        for option, value in self.said.get("options", {}).items():
            if option != "request_user":
                given[option] = str(value).upper() if isinstance(value, bool) else value
        options = ", ".join(f"{option} = {value}" for option, value in given.items())
        return f"ALTER TABLE `{self.table}` ADD CHANGEFEED f_{self.name} WITH ({options});"

    def records(self, statement: str, stamp: tuple[int, int]) -> Iterator[dict[str, Any]]:
        """The records of one statement, which is one transaction."""
        for flag, row in rows_of(statement):
            # A document table hides the hash of its key, and its attributes are one column.
            shown = {name: value for name, value in row.items() if not name.startswith("__")}
            for name, attribute in row.get("__RowData", {}).get("M", {}).items():
                shown[name] = next(iter(attribute.values()))
            rest = {name: value for name, value in shown.items() if name not in self.key}
            yield {"key": [shown[name] for name in self.key], flag: rest, "ts": list(stamp), "user": "user@test"}


def samples() -> Iterator[Sample]:
    tables: dict[str, str] = {}
    for path in sorted(SAMPLES.glob("*.json")):
        said = json.loads(path.read_text(), parse_float=str)
        if path.stem in ("docs_samples", "schema_change"):
            continue
        key: tuple[str, ...] = ("key",)
        if "columns" in said:
            kinds = {"": said["columns"]}
        elif "Document" in said["table"]:
            # Without the hash of the key, which YDB hides, and with the attributes of the document.
            kinds = {
                "": {"id_shard": "Utf8", "id_sort": "Utf8", "color": "Utf8", "weight": "DyNumber", "extra": "Bool"}
            }
            key = ("id_shard", "id_sort")
        else:
            own, values = re.findall(r"\(key (\w+) PK, value ([\w|]+)\)", said["table"])[0]
            kinds = {kind: {"key": own, "value": kind} for kind in values.split("|")}
        for kind, columns in kinds.items():
            name = path.stem if len(kinds) == 1 else f"{path.stem}{kind}"
            same = json.dumps([columns, said.get("queries"), path.stem if path.stem in ALONE else ""])
            yield Sample(name, tables.setdefault(same, name), said, columns, key)


class Feed:
    """Messages of YDB's topics, as `kcat -J` prints them."""

    def __init__(self) -> None:
        self._offsets = count()
        self.lines: list[str] = []

    def send(self, table: str, record: Any) -> None:
        place = {"topic": f"{table}/in", "partition": 0, "offset": next(self._offsets)}
        self.lines.append(json.dumps({**place, "key": None, "payload": json.dumps(record)}))

    def taken(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines


def announced(columns: Mapping[str, str], stamp: tuple[int, int], version: int) -> dict[str, Any]:
    """The record of a table's columns."""
    types = {name: {"type": kind} for name, kind in columns.items()}
    table = {"schemaVersion": version, "columns": types, "primaryKeyColumnNames": ["key"]}
    return {"tableChanges": [{"table": table}], "ts": list(stamp)}


def like(found: Any, expected: Any) -> Any:
    """What is expected, with what was found in the place of wildcards."""
    if expected == "***":
        return found
    if isinstance(expected, dict) and isinstance(found, dict):
        return {name: like(found.get(name), part) for name, part in expected.items()}
    if isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        return [like(one, part) for one, part in zip(found, expected, strict=True)]
    return expected


def published(made: Shop, feed: str, format: str = "JSON") -> list[Any]:
    values = []
    for record in made.pipeline.read_feed(feed):
        assert record.value is not None
        value = json.loads(record.value, parse_float=str)
        if format == "DEBEZIUM_JSON":
            assert record.key is not None
            value = {"message_meta___key": json.loads(record.key), "value": value}
        values.append(value)
    return values


def test_every_sample_of_ydb_comes_out_of_a_feed_of_ours(tmp_path: Path) -> None:
    all_samples = list(samples())
    tables = {sample.table: sample for sample in all_samples}
    docs = json.loads((SAMPLES / "docs_samples.json").read_text())
    small = json.loads((SAMPLES / "schema_change.json").read_text())
    images = json.loads(SEED.read_text())
    rules = [
        *(sample.rule for sample in tables.values()),
        {"name": "series", "source": "ydb", "key": ["id", "part"], "columns": {"id": "uint64", "part": "string"}},
        {
            "name": "orders",
            "source": "ydb",
            "key": ["id"],
            "columns": {"id": "uint64", "created": "timestamptz", "customer": "string"},
        },
        {"name": "snapshots", "source": "ydb", "key": ["a", "b", "c"]},
        {"name": "numbers", "source": "small", "key": ["key"]},
    ]
    files = {"type": "files", "format": "ydb-json", "carrier": "kcat", "options": {"mode": "UPDATES"}}
    made = shop(
        tmp_path,
        {**files, "name": "ydb", "path": "in/*.json"},
        {**files, "name": "small", "path": "in/small/*.json"},
        tables=rules,
    )
    feed, stamps = Feed(), ((START + number, 7 * number) for number in count(1))

    def send(sample: Sample, statements: list[str]) -> None:
        for statement in statements:
            stamp = next(stamps)
            for record in sample.records(statement, stamp):
                feed.send(sample.table, record)

    for sample in tables.values():
        send(sample, sample.statements[:1] if sample.name in BEFORE else [])
        if sample.name in ANNOUNCED:
            feed.send(sample.table, announced(sample.columns, next(stamps), 1))
    feed.send("series", {"key": [2, "two"], "update": {"payload": "", "date": None}, "ts": list(next(stamps))})
    feed.send("snapshots", {"key": images["key"], "update": images["oldImage"], "ts": list(next(stamps))})
    made.write("1.json", *feed.taken())
    feed.send("numbers", announced({"key": "Uint64", "value": "Uint64"}, (10, 10), 1))
    made.write("small/1.json", *feed.taken())
    made.pipeline.run(once=True)

    made.pipeline.sql("".join(sample.creation for sample in all_samples))
    made.pipeline.sql("ALTER TABLE series ADD CHANGEFEED docs WITH (FORMAT = 'JSON', MODE = 'UPDATES')")
    made.pipeline.sql("ALTER TABLE snapshots ADD CHANGEFEED rows WITH (FORMAT = 'JSON', MODE = 'NEW_AND_OLD_IMAGES')")
    made.pipeline.sql(
        """ALTER TABLE numbers ADD CHANGEFEED plain WITH (FORMAT = 'JSON', MODE = 'UPDATES'),
        ADD CHANGEFEED stamped WITH (FORMAT = 'JSON', MODE = 'UPDATES', VIRTUAL_TIMESTAMPS = TRUE,
            SCHEMA_CHANGES = TRUE)"""
    )
    made.pipeline.run(once=True)
    name = "InitialScanAndResolvedTimestamps"
    made.pipeline.sql(f"ALTER TABLE {name} ALTER CHANGEFEED f_{name} DISABLE")

    for sample in tables.values():
        rest = sample.statements[sample.name in BEFORE :]
        send(sample, rest[:1] if sample.name in BETWEEN else rest)
        if sample.name == "AddColumn":
            feed.send(sample.table, announced({**sample.columns, "extra": "Uint32"}, next(stamps), 2))
    made.write("2.json", *feed.taken())
    feed.send("numbers", {**small["data_ts"], "ts": [10, 15]})
    made.write("small/2.json", *feed.taken())
    made.pipeline.run(once=True)

    made.pipeline.sql(
        """ALTER TABLE DisableStream ALTER CHANGEFEED f_DisableStream DISABLE;
        ALTER TABLE orders ADD CHANGEFEED stamps WITH (FORMAT = 'JSON', MODE = 'UPDATES', VIRTUAL_TIMESTAMPS = TRUE,
            BARRIERS_INTERVAL = Interval('PT1S'));
        ALTER TABLE numbers ADD CHANGEFEED barriers WITH (FORMAT = 'JSON', MODE = 'UPDATES', BARRIERS_INTERVAL = 'PT1S')"""
    )
    for sample in tables.values():
        send(sample, sample.statements[1:] if sample.name in BETWEEN else [])
    feed.send("series", {**docs[0], "ts": list(next(stamps))})
    feed.send("series", {**docs[1], "ts": list(next(stamps))})
    feed.send("snapshots", {"key": images["key"], "update": images["newImage"], "ts": list(next(stamps))})
    feed.send("orders", docs[2])
    feed.send("series", {"key": [3, "three"], "update": {"payload": ""}, "ts": docs[3]["resolved"]})
    made.write("3.json", *feed.taken())
    feed.send("numbers", small["valid_v2"])
    feed.send("numbers", {"key": [2], "update": {}, "ts": small["valid_v2"]["ts"]})
    made.write("small/3.json", *feed.taken())
    made.pipeline.run(once=True)

    for sample in all_samples:
        found = published(made, f"f_{sample.name}", sample.said["format"])
        assert exact(found) == exact(like(found, sample.expected)), sample.name
    assert exact(published(made, "docs")[:2]) == exact(docs[:2])
    assert exact(published(made, "rows")) == exact([images])
    assert exact(published(made, "stamps")) == exact(docs[2:])
    assert published(made, "plain")[0] == small["data_no_ts"]
    assert published(made, "barriers")[-1] == small["heartbeat"]
    assert published(made, "stamped")[:2] == [{**small["data_ts"], "ts": [10, 15]}, small["valid_v2"]]
    for one in made.pipeline.feeds():
        assert not made.pipeline.verify_feed(one.name).faults
    assert made.rejects() == []
