"""What an event says about where and when it happened: table, time, transaction."""

import re

import msgspec

from changeling.formats.debezium_json.envelope import YDB, Number, Source
from changeling.formats.debezium_json.envelope import Transaction as WireTransaction
from changeling.formats.debezium_json.message import Members
from changeling.formats.debezium_json.positions import number
from changeling.model import json_text, times
from changeling.model.change import Transaction
from changeling.model.errors import Rejected
from changeling.model.table import TableName

_transaction = json_text.named("transaction", msgspec.json.Decoder(WireTransaction | None).decode)
_number = msgspec.json.Decoder(Number).decode
_POSTGRES_ID = re.compile(r"([0-9]+):[0-9]+")
_UNITS = (("ts_ns", 1), ("ts_us", 1_000), ("ts_ms", 1_000_000))


def place_of(source: Source) -> tuple[str | None, str | None]:
    """The catalog and the schema of an event's table; a keyspace is the database where no other is named, else a schema."""
    catalog, schema, keyspace = source.db or None, source.schema or None, source.keyspace or None
    if keyspace is None or keyspace == catalog:
        return catalog, schema
    return (keyspace, schema) if catalog is None else (catalog, schema or keyspace)


def table_of(
    declared: TableName | None, catalog: str | None, schema: str | None, name: str | None, topic: str | None
) -> TableName:
    """The table of an event: as its source names it, as the user declared, or by the end of its topic."""
    if name:
        return TableName(catalog or None, schema or None, name)
    if declared is not None:
        return declared
    if topic is not None:
        path = topic.split("/")
        # YDB's topics are path/to/table/feed, the others are prefix.schema.table.
        found = path[-2] if len(path) > 1 else topic.rpartition(".")[2]
        if found:
            return TableName(catalog or None, schema or None, found)
    raise Rejected("the event names no table: source.table is missing; say which with --table")


def commit_time(source: Source, envelope: Members) -> int | None:
    """When the source committed, in nanoseconds by the finest clock that it has; else when the event was created."""
    if type(source.ts_ns) is int:
        return times.from_units(source.ts_ns, 1)
    if source.ts_ns is not None or source.ts_us is not None or source.ts_ms is not None:
        return finest(source)
    if source.system_time is not None:
        return times.from_units(number("system_time", source.system_time) or 0, 1_000_000)
    return _made(envelope)


def _made(envelope: Members) -> int | None:
    for name, unit in _UNITS:
        if (raw := envelope.get(name, b"null")) != b"null":
            return times.from_units(number(name, json_text.named(name, _number)(raw)) or 0, unit)
    return None


def extraction_time(meta: str) -> int | None:
    """When the connector created the event, in nanoseconds, from its `meta`; None where that does not contain it."""
    envelope = json_text.members(meta).get("envelope")
    try:
        return None if envelope is None else _made(json_text.members(envelope))
    except ValueError:
        return None


def finest(clock: object) -> int | None:
    """The finest of `ts_ns`, `ts_us` and `ts_ms` that is present, in nanoseconds."""
    for name, unit in _UNITS:
        value = number(name, getattr(clock, name, None))
        if value is not None:
            return times.from_units(value, unit)
    return None


def transaction_of(raw: bytes, source: Source, connector: str) -> Transaction | None:
    """The transaction that an event names; YDB's is a part of its position."""
    if raw == b"null":
        return Transaction(str(source.txId)) if connector == YDB and source.txId is not None else None
    found = _transaction(raw)
    if found is None or found.id is None:
        return None
    order, total = number("transaction", found.data_collection_order), number("transaction", found.total_order)
    return Transaction(transaction_id(found.id), order, total)


def transaction_id(given: Number) -> str:
    """The id of a transaction: PostgreSQL's connector puts the LSN of each operation behind it (`571:53195832`)."""
    text = str(given)
    match = _POSTGRES_ID.fullmatch(text)
    return text if match is None else match[1]
