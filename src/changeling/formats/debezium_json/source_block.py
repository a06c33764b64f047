"""The `source` of an event, and its `transaction`: table, time, transaction, and position, by the connector that read it."""

import contextlib
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from changeling.envelope.cells import Cell, Cells, MemberStruct
from changeling.envelope.scalar_cells import SCALARS
from changeling.model import json_text, position, times
from changeling.model.change import Transaction
from changeling.model.errors import Rejected
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

XTDB, YDB, MONGODB = "xtdb-cdc", "ydb", "mongodb"
DOCUMENTS = frozenset({XTDB, MONGODB})
"""Connectors whose rows are documents: each has the columns that it has."""

Number = int | str | None
"""An integer, which some connectors and Debezium's own older manuals print as text."""
_NAMES = ("db", "schema", "keyspace", "table", "collection")
"""Of a table. Vitess and Cassandra call a database a keyspace."""
_PLACES = (
    *("lsn", "pos", "row", "commit_lsn", "change_lsn", "event_serial_no", "scn", "commit_scn"),
    *("ord", "tord", "ts_ms", "tx_id", "step", "txId"),
)
"""The numbers that positions are made of, and that must not be negative."""


class Marks(msgspec.Struct, gc=False, omit_defaults=True):
    """What a change has and Debezium cannot express, in `source.changeling` of the records that we write."""

    op: Operation | None = None
    before_image: Image | None = None
    after_image: Image | None = None


Source: TypeAlias = Any
"""What the reader needs of `source`, as cells; the rest of it is kept as it is."""
_Source = msgspec.defstruct(
    "_Source",
    [
        *((name, str | None, None) for name in ("connector", *_NAMES, "sequence", "file")),
        *((name, Number, None) for name in (*_PLACES, "ts_us", "ts_ns", "system_time", "rs_id", "ssn")),
        # Text where the record is one of ours; other sources may call anything so.
        ("position", Any, None),
        ("changeling", Marks | None, None),
    ],
    gc=False,
)


class _Transaction(msgspec.Struct, gc=False):
    """The transaction's id, and the event's places in it and in its table's part of it."""

    id: Number
    total_order: Number = None
    data_collection_order: Number = None


SOURCE, _TRANSACTION = MemberStruct("source", _Source), MemberStruct("transaction", _Transaction, nullable=True)
_number = msgspec.json.Decoder(Number).decode
_POSTGRES_ID = re.compile(r"([0-9]+):[0-9]+")
_UNITS = (("ts_ns", 1), ("ts_us", 1_000), ("ts_ms", times.NANOS_PER_MILLI))


def connector_of(given: str | None) -> str:
    """The name of a connector, which some sources print in capitals."""
    return (given or "").lower()


def table_of(cells: Cells, declared: TableName | None, source: Source, topic: Cell) -> Cell:
    """The table of an event: as its source names it, as the user declared, or by the end of its topic; else None."""
    return cells.each(functools.partial(_table, declared), topic, *(getattr(source, name) for name in _NAMES))


def _table(declared: TableName | None, topic: str | None, *names: str | None) -> TableName | None:
    catalog, schema, keyspace, *own = (name or None for name in names)
    if keyspace is not None and keyspace != catalog:
        catalog, schema = (keyspace, schema) if catalog is None else (catalog, schema or keyspace)
    name = next(filter(None, own), None)
    if name is None:
        if declared is not None or topic is None:
            return declared
        path = topic.split("/")
        # YDB's topics are path/to/table/feed, the others are prefix.schema.table.
        name = path[-2] if len(path) > 1 else topic.rpartition(".")[2]
    return TableName(catalog, schema, name) if name else None


def commit_time(cells: Cells, source: Source, envelope: Mapping[str, Cell]) -> Cell:
    """When the source committed, in nanoseconds by the finest clock that it has; else when the event was created."""
    found = finest(cells, source, "source.")
    if cells.usually(cells.present(found)):
        return found
    if source.system_time is not None:
        return times.from_units(cells.int_or_text(source.system_time, "source.system_time"), times.NANOS_PER_MILLI)
    return created(envelope)


def created(envelope: Mapping[str, bytes]) -> int | None:
    """When an event was created, in nanoseconds; None where it does not say so."""
    for name, unit in _UNITS:
        if (raw := envelope.get(name, b"null")) != b"null":
            return times.from_units(SCALARS.int_or_text(json_text.named(name, _number)(raw), name) or 0, unit)
    return None


def extraction_time(meta: str) -> int | None:
    """When the connector created the event, in nanoseconds, from its `meta`; None where that does not contain it."""
    with contextlib.suppress(ValueError):
        return created(json_text.members(json_text.members(meta).get("envelope", b"{}")))
    return None


def finest(cells: Cells, clock: Any, inside: str = "") -> Cell:
    """The finest of `ts_ns`, `ts_us` and `ts_ms` that is present, in nanoseconds; `inside` is where the record has them."""
    found = None
    for name, unit in _UNITS:
        count = cells.int_or_text(getattr(clock, name, None), f"{inside}{name}")
        found = cells.first(found, cells.time(count, unit))
        if cells.all(cells.present(found)):
            break
    return found


def transaction_of(cells: Cells, raw: Cell, source: Source, connector: Cell) -> Cell:
    """The transaction that an event names; YDB's is a part of its position."""
    if not cells.usually(cells.present(raw) | ~cells.equal(connector, YDB)):
        return None if source.txId is None else Transaction(str(source.txId))
    found = cells.struct(_TRANSACTION, raw)
    return cells.transaction(
        cells.changed(found.id, b":", transaction_id),
        cells.int_or_text(found.data_collection_order, "transaction.data_collection_order"),
        cells.int_or_text(found.total_order, "transaction.total_order"),
    )


def transaction_id(given: Number) -> str:
    """The id of a transaction: PostgreSQL's connector appends the LSN of each operation (`571:53195832`)."""
    text = str(given)
    match = _POSTGRES_ID.fullmatch(text)
    return text if match is None else match[1]


_sequence = msgspec.json.Decoder(list[int | str | None]).decode
_REDO_RECORD = re.compile(r"0x([0-9a-fA-F]{1,80})\.([0-9a-fA-F]{1,80})\.([0-9a-fA-F]{1,80})")
"""A place in Oracle's redo log: sequence, block and offset, as in `0x000004.00000010.0010`."""
_ORDERED = frozenset({XTDB, YDB})
"""Connectors whose positions distinguish the changes of a row: with the order inside the transaction (XTDB), or without it."""

Log: TypeAlias = Callable[[Source], tuple[int | None, ...]]
"""The numbers of a position; there is none where one of them is None."""


def position_of(cells: Cells, source: Source, connector: Cell, transaction: Cell) -> Cell:
    """The sortable position of an event, or None where its source has none."""
    text = cells.as_text(source.position)
    if cells.branch(cells.present(text)):
        cells.check_position(text)
        return text
    name = cells.common(connector)
    if name in _COLUMNAR_POSITIONS:
        own = _COLUMNAR_POSITIONS[name](cells, source)
        found = cells.fields(transaction)
        places = [found.total, found.order] if cells.any(cells.present(found.id)) else []
        if cells.branch(cells.all_present((*own, *places))) and (cells.is_columnar or min(own) >= 0):
            return cells.position(*own, *(cells.at_least(place, 0) for place in places))
    return cells.each_row(functools.partial(_by_connector, name), source, transaction)


def _columnar_postgresql(cells: Cells, source: Source) -> tuple[Cell, ...]:
    return cells.captured(source.sequence, r'\["(?P<commit>[0-9]{1,18})","(?P<own>[0-9]{1,18})"\]')


def _columnar_mysql(cells: Cells, source: Source) -> tuple[Cell, ...]:
    (file,) = cells.captured(source.file, r"(?:.*\.)?(?P<number>[0-9]{1,18})")
    at, row = (cells.int_or_text(getattr(source, name), f"source.{name}") for name in ("pos", "row"))
    return file, at, cells.first(row, 0)


_COLUMNAR_POSITIONS = {"postgresql": _columnar_postgresql, "mysql": _columnar_mysql, "mariadb": _columnar_mysql}
"""The numbers of positions, by columns, where the most common connectors give them as usual; others are read one by one."""


def _by_connector(connector: str, source: Source, transaction: Transaction | None) -> str | None:
    found = transaction or Transaction("")
    parts = _LOGS[connector](source) if connector in _LOGS else (None,)
    if connector == XTDB:
        parts = (*parts, found.order or 0)
    numbers = [part for part in parts if part is not None]
    if len(numbers) < len(parts):
        return None
    if min(numbers) < 0:
        raise _negative(source)
    if connector in _ORDERED or (found.total is None and found.order is None):
        return position.encode(*numbers)
    # Several changes of a transaction may share a position: behind it is the place inside the transaction.
    return position.encode(*numbers, max(0, found.total or 0), max(0, found.order or 0))


def _negative(source: Source) -> Rejected:
    """Names the member that makes a position negative."""
    for name in _PLACES:
        found = _log_number(source, name)
        if found is not None and found < 0:
            return Rejected(f"source.{name} is {found}: a position cannot be negative")
    other = "transaction.data_collection_order" if source.sequence is None else "source.sequence"
    return Rejected(f"{other}: a position cannot be negative")


def _integer(source: Source, name: str) -> int | None:
    found: int | None = SCALARS.int_or_text(getattr(source, name), f"source.{name}")
    return found


def _log_number(source: Source, name: str) -> int | None:
    """A log sequence number: hex digits in groups (`00000027:00000ac0:0002`), or an integer."""
    value = getattr(source, name)
    if not isinstance(value, str) or ":" not in value:
        return _integer(source, name)
    try:
        return int(value.replace(":", ""), 16)
    except ValueError:
        raise Rejected(f"source.{name} is {value[:40]!r}, which is not a log sequence number") from None


def _postgresql(source: Source) -> tuple[int | None, ...]:
    if source.sequence is not None:
        try:
            last_commit, own = _sequence(source.sequence)
        except ValueError:
            raise Rejected(f"source.sequence is {source.sequence[:60]!r}: it must be two log positions") from None
        if own is not None:
            return SCALARS.int_or_text(last_commit, "source.sequence") or 0, SCALARS.int_or_text(own, "source.sequence")
    return (_integer(source, "lsn"),)


def _sqlserver(source: Source) -> tuple[int | None, ...]:
    commit = _log_number(source, "commit_lsn")
    if commit is None:
        return (None,)
    return commit, _log_number(source, "change_lsn") or 0, _integer(source, "event_serial_no") or 0


def _oracle(source: Source) -> tuple[int | None, ...]:
    scn, commit = _integer(source, "scn"), _integer(source, "commit_scn")
    if scn is None and commit is None:
        return (None,)
    # The place of a change among those of one SCN: its redo record and its place in that; nothing where neither is given.
    found = _REDO_RECORD.fullmatch(str(source.rs_id).strip())
    record = (0, 0, 0) if found is None else (int(part, 16) for part in found.groups())
    place = max(0, _integer(source, "ssn") or 0)
    # A row of a snapshot has no commit of its own: the snapshot's SCN is used.
    return scn if commit is None else commit, scn or 0, *((*record, place) if found or place else ())


def _mongodb(source: Source) -> tuple[int | None, ...]:
    millis, at = _integer(source, "ts_ms"), _integer(source, "ord")
    if millis is None or at is None:
        return (None,)
    inside = _integer(source, "tord")
    return (millis // 1000, at) if inside is None else (millis // 1000, at, inside)


_LOGS: dict[str, Log] = {
    "postgresql": _postgresql,
    **dict.fromkeys(("mysql", "mariadb"), functools.partial(_columnar_mysql, SCALARS)),
    **dict.fromkeys(("sqlserver", "db2", "informix"), _sqlserver),
    "oracle": _oracle,
    MONGODB: _mongodb,
    XTDB: lambda source: (_integer(source, "tx_id"),),
    YDB: lambda source: (_integer(source, "step"), _integer(source, "txId")),
}
