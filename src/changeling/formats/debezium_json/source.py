"""The source block of the events that we write: the origin, the time and the position of the change."""

import functools
from collections.abc import Mapping

from changeling.formats.debezium_json.envelope import Marks
from changeling.formats.debezium_json.options import DebeziumWrite
from changeling.formats.format import Outgoing
from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.json_text import quote
from changeling.model.operation import Operation
from changeling.model.table import TableName

Pairs = list[tuple[str, bytes | str]]


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


def milliseconds(nanos: int | None) -> bytes:
    """A time in milliseconds; `clock` has the finer digits."""
    return b"null" if nanos is None else str(nanos // 1_000_000).encode()


def clock(nanos: int | None) -> Pairs:
    """The finer clocks, where a time needs them."""
    if nanos is None or not nanos % 1_000_000:
        return []
    return [("ts_us", str(nanos // 1_000).encode()), ("ts_ns", str(nanos).encode())]


def source_of(out: Outgoing, change: Change, options: DebeziumWrite, marks: Marks | None = None) -> bytes:
    """The source block of one event; an empty text replaces a part of the name that the table does not have."""
    server, database, table = names_in_source(options, change.table)
    millis, finer = milliseconds(change.commit_time), clock(change.commit_time)
    snapshot = b'"true"' if change.op is Operation.READ else b'"false"'
    text = b'%b,"ts_ms":%b,"snapshot":%b,"db":%b' % (server, millis, snapshot, database)
    if finer:
        text += b"," + json_text.join(finer)[1:-1]
    text += table
    if change.position is not None and not out.arrived:
        text += b',"position":"%b"' % change.position.encode()
    return text + (b"}" if marks is None else b',"changeling":%b}' % quote(marks))


@functools.lru_cache(maxsize=4096)
def names_in_source(options: DebeziumWrite, table: TableName | None) -> tuple[bytes, bytes, bytes]:
    """The server, the database and the table, as all events of one table have them."""
    name = server_name(options)
    server = json_text.join(
        [("version", quote(options.version)), ("connector", quote(options.connector)), ("name", quote(name))]
    )
    schema, own = (table.schema or "", table.name) if table else ("", "")
    tail = b',"schema":%b,"table":%b' % (quote(schema), quote(own))
    return server[:-1], quote((table and table.catalog) or ""), tail
