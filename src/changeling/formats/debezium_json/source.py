"""The source block of the events that we write: the origin, the time and the position of the change."""

import functools
from collections.abc import Mapping

from changeling.envelope.cells import Cell, Cells
from changeling.formats.debezium_json.options import DebeziumWrite
from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.json_text import quote
from changeling.model.operation import Operation
from changeling.model.table import TableName

_MILLISECOND, _MICROSECOND = 1_000_000, 1_000


def server_name(options: DebeziumWrite) -> str:
    """What topics begin with, where the records have no name of their own."""
    return options.name or "changeling"


def topic_of(table: TableName | None, prefix: str) -> str | None:
    """`prefix.schema.table`, the database in the schema's place where there is no schema."""
    if table is None:
        return None
    return ".".join(part for part in (prefix, table.schema or table.catalog, table.name) if part is not None)


def kept_topic(change: Change, meta: Mapping[str, bytes], options: DebeziumWrite) -> str | None:
    """The topic that a record which is no row came from, unless the user chose another name."""
    if "topic" in meta and options.name is None:
        return json_text.string(meta["topic"])
    return topic_of(change.table, server_name(options))


def clock(cells: Cells, nanos: Cell) -> tuple[Cell, Cell]:
    """A time in milliseconds, and the finer clocks, each with a comma in front, where it needs them."""
    millis = cells.units(nanos, _MILLISECOND)
    finer = cells.present(nanos) & ~cells.equal(cells.time(millis, _MILLISECOND), nanos)
    if not cells.any(finer):
        return cells.digits(millis), b""
    clocks = cells.joined(
        b',"ts_us":', cells.digits(cells.units(nanos, _MICROSECOND)), b',"ts_ns":', cells.digits(nanos)
    )
    return cells.digits(millis), cells.where(finer, clocks, b"")


def transaction_text(cells: Cells, transaction: Cell) -> Cell:
    """The transaction block of an event."""
    found = cells.fields(transaction)
    text = cells.joined(
        b'{"id":',
        cells.quoted(found.id),
        b',"total_order":',
        cells.digits(found.total),
        b',"data_collection_order":',
        cells.digits(found.order),
        b"}",
    )
    return cells.where(cells.present(found.id), text, b"null")


def source_of(cells: Cells, out: Cell, change: Cell, options: DebeziumWrite, marks: Cell = b"") -> Cell:
    """The source block of one event; an empty text replaces a part of the name that the table does not have."""
    millis, finer = clock(cells, change.commit_time)
    placed = cells.present(change.position) & ~cells.mask(out.arrived)
    return cells.joined(
        _server(options) + b',"ts_ms":',
        millis,
        b',"snapshot":"',
        cells.where(cells.equal(change.op, Operation.READ), b"true", b"false"),
        b'","db":',
        cells.each(_database, change.table),
        finer,
        cells.each(_table, change.table),
        cells.where(placed, cells.joined(b',"position":"', cells.first(change.position, ""), b'"'), b""),
        marks,
        b"}",
    )


@functools.lru_cache(maxsize=64)
def _server(options: DebeziumWrite) -> bytes:
    names = (("version", options.version), ("connector", options.connector), ("name", server_name(options)))
    return json_text.join((name, quote(value)) for name, value in names)[:-1]


def _database(table: TableName | None) -> bytes:
    return quote((table and table.catalog) or "")


def _table(table: TableName | None) -> bytes:
    schema, name = (table.schema or "", table.name) if table else ("", "")
    return b',"schema":%b,"table":%b' % (quote(schema), quote(name))
