"""Sinks of Kafka Connect read the topics of feeds: documents and YDB's events into files, Debezium's events into PostgreSQL."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.broker import Broker
from tests.brokers.connect import Connect, converters
from tests.feeds.kafka_feeds import received
from tests.postgres.server import Database
from tests.replicas.shops import bus, item

pytestmark = pytest.mark.usefixtures("spark")

COLUMNS = {"id": "int64", "name": "utf8", "n": "int32", "price": "double", "active": "boolean", "at": "timestamp"}


def row(number: int, **values: Any) -> dict[str, Any]:
    moment = f"2024-01-02T03:04:05.{number:06d}Z"
    return {"id": number, "name": f"user {number}", "n": number, "price": 0.1, "active": True, "at": moment, **values}


def into_file(topic: str, file: Path, *fields: str) -> dict[str, str]:
    """A sink that writes a part of each record, reached by these fields, one a line."""
    steps = {f"transforms.{name}.type": "org.apache.kafka.connect.transforms.ExtractField$Value" for name in fields}
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "topics": topic,
        "file": str(file),
        "transforms": ",".join(fields),
        **steps,
        **{f"transforms.{name}.field": name for name in fields},
        **converters(schemas=False),
    }


def into_postgres(topic: str, database: Database) -> dict[str, str]:
    """Debezium's own sink: it makes the table, and applies each event."""
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "topics": topic,
        "connection.url": f"jdbc:postgresql://127.0.0.1:{database.server.port}/{database.name}",
        "connection.username": "postgres",
        "connection.password": "none is asked for",
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
        "collection.name.format": "users",
        **converters(schemas=True),
    }


@pytest.mark.soak
def test_sinks_of_kafka_connect_read_feeds(tmp_path: Path, broker: Broker, database: Database) -> None:
    feeds = [
        {
            "name": name,
            "table": "public.users",
            "with": {"FORMAT": format, "MODE": "NEW_AND_OLD_IMAGES"},
            "options": options,
            "topic": {"type": "kafka", "servers": broker.servers, "name": f"sunk.{name}", "partitions": 2},
        }
        for name, format, options in (
            ("documents", "xtdb", {}),
            ("ydb", "DEBEZIUM_JSON", {}),
            ("events", "debezium-json", {"schemas": True}),
        )
    ]
    made = bus(tmp_path, feeds=feeds)
    made.write("1.json", *(item(number, "insert", row(number), columns=COLUMNS) for number in range(1, 8)))
    made.pipeline.run(once=True)
    made.write(
        "2.json",
        item(8, "update", {"id": 1, "name": None}, {"id": 1}, columns=COLUMNS),
        item(9, "delete", None, {"id": 2}, columns=COLUMNS),
        item(10, "update", {"id": 30}, {"id": 3}, columns=COLUMNS),
        item(11, "update", {"id": 4, "n": -4, "active": None, "price": 1e300}, {"id": 4}, columns=COLUMNS),
    )
    made.pipeline.run(once=True)
    found = made.pipeline.current("public.users")
    assert found is not None
    expected = sorted(tuple(one.values()) for one in found[0].to_pylist())
    documents, events = tmp_path / "documents", tmp_path / "events"
    sent = [json.loads(record[3] or b"")["after"] for record in received(broker.servers, "sunk.documents", 2)]

    def written() -> list[tuple[Any, ...]]:
        is_there = database.rows("SELECT FROM pg_tables WHERE tablename = 'users'")
        return database.rows("SELECT id, name, n, price, active, at FROM users ORDER BY id") if is_there else []

    with Connect(
        broker.servers,
        into_file("sunk.documents", documents, "after"),
        into_file("sunk.ydb", events, "payload", "op"),
        into_postgres("sunk.events", database),
    ) as connect:
        connect.until(lambda: all(len(lines(file)) == len(sent) for file in (documents, events)))
        connect.until(lambda: written() == expected)
    assert sorted(lines(documents)) == sorted(one or "null" for one in sent)
    assert sorted(lines(events)) == ["c"] * 8 + ["d"] * 2 + ["u"] * 2


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
