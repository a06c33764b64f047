"""What an event says about where and when it happened: table, time, transaction."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from changeling.envelope.cells import Cell, Cells, Part
from changeling.envelope.one import ONE
from changeling.formats.debezium_json.envelope import YDB, Number, Source
from changeling.formats.debezium_json.envelope import Transaction as WireTransaction
from changeling.model import json_text, times
from changeling.model.change import Transaction
from changeling.model.errors import Rejected
from changeling.model.table import TableName

_TRANSACTION = Part("transaction", WireTransaction, nullable=True)
_number = msgspec.json.Decoder(Number).decode
_POSTGRES_ID = re.compile(r"([0-9]+):[0-9]+")
_UNITS = (("ts_ns", 1), ("ts_us", 1_000), ("ts_ms", 1_000_000))


def place_of(source: Source) -> tuple[str | None, str | None]:
    """The catalog and the schema of an event's table; a keyspace is the database where no other is named, else a schema."""
    return _place(source.db, source.schema, source.keyspace)


def _place(catalog: str | None, schema: str | None, keyspace: str | None) -> tuple[str | None, str | None]:
    catalog, schema, keyspace = catalog or None, schema or None, keyspace or None
    if keyspace is None or keyspace == catalog:
        return catalog, schema
    return (keyspace, schema) if catalog is None else (catalog, schema or keyspace)


def table_of(cells: Cells, declared: TableName | None, source: Source, topic: Cell) -> Cell:
    """The table of an event: as its source names it, as the user declared, or by the end of its topic."""
    parts = (source.db, source.schema, source.keyspace, source.table, source.collection)
    named = cells.each(_named, *parts)
    if cells.only(cells.present(named)):
        return named
    return table_of_topic(declared, *place_of(source), topic)


def _named(
    catalog: str | None, schema: str | None, keyspace: str | None, table: str | None, collection: str | None
) -> TableName | None:
    name = table or collection
    return TableName(*_place(catalog, schema, keyspace), name) if name else None


def table_of_topic(declared: TableName | None, catalog: str | None, schema: str | None, topic: str | None) -> TableName:
    """The table of an event that names none."""
    if declared is not None:
        return declared
    if topic is not None:
        path = topic.split("/")
        # YDB's topics are path/to/table/feed, the others are prefix.schema.table.
        found = path[-2] if len(path) > 1 else topic.rpartition(".")[2]
        if found:
            return TableName(catalog or None, schema or None, found)
    raise Rejected("the event names no table: source.table is missing; say which with --table")


def commit_time(cells: Cells, source: Source, envelope: Mapping[str, Cell]) -> Cell:
    """When the source committed, in nanoseconds by the finest clock that it has; else when the event was created."""
    found = finest(cells, source, "source.")
    if cells.only(cells.present(found)):
        return found
    if source.system_time is not None:
        return times.from_units(cells.integer(source.system_time, "source.system_time"), 1_000_000)
    return _made(envelope)


def _made(envelope: Mapping[str, bytes]) -> int | None:
    for name, unit in _UNITS:
        if (raw := envelope.get(name, b"null")) != b"null":
            return times.from_units(ONE.integer(json_text.named(name, _number)(raw), name) or 0, unit)
    return None


def extraction_time(meta: str) -> int | None:
    """When the connector created the event, in nanoseconds, from its `meta`; None where that does not contain it."""
    envelope = json_text.members(meta).get("envelope")
    try:
        return None if envelope is None else _made(json_text.members(envelope))
    except ValueError:
        return None


def finest(cells: Cells, clock: Any, inside: str = "") -> Cell:
    """The finest of `ts_ns`, `ts_us` and `ts_ms` that is present, in nanoseconds; `inside` is where the record has them."""
    found = None
    for name, unit in _UNITS:
        count = cells.integer(getattr(clock, name, None), f"{inside}{name}")
        found = cells.first(found, cells.time(count, unit))
        if cells.all(cells.present(found)):
            break
    return found


def transaction_of(cells: Cells, raw: Cell, source: Source) -> Cell:
    """The transaction that an event names; YDB's is a part of its position."""
    if not cells.only(cells.present(raw) | cells.holds(_is_not_ydb, source.connector)):
        return None if source.txId is None else Transaction(str(source.txId))
    found = cells.struct(_TRANSACTION, raw)
    return cells.transaction(
        cells.changed(found.id, b":", transaction_id),
        cells.integer(found.data_collection_order, "transaction.data_collection_order"),
        cells.integer(found.total_order, "transaction.total_order"),
    )


def _is_not_ydb(connector: str | None) -> bool:
    return (connector or "").lower() != YDB


def transaction_id(given: Number) -> str:
    """The id of a transaction: PostgreSQL's connector appends the LSN of each operation (`571:53195832`)."""
    text = str(given)
    match = _POSTGRES_ID.fullmatch(text)
    return text if match is None else match[1]
