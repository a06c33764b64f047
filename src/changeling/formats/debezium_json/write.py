"""Changes into Debezium's events: native ones as they were, others in an envelope of our own connector."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from changeling.envelope.cells import Absent, Cell, Cells, Members, MemberStruct, as_bytes
from changeling.envelope.scalar_cells import SCALARS
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats.debezium_envelope import IMAGES, headers_of, message_key, rewrapped, transaction_block
from changeling.formats.debezium_json.images import PLACEHOLDER, Placeholder, before_image
from changeling.formats.debezium_json.read import LETTERS, NEW_KEY, OLD_KEY, OPERATIONS, PAIR
from changeling.formats.debezium_json.schema import Wire, WireTypes
from changeling.formats.debezium_json.source_block import Marks
from changeling.formats.debezium_json.types import Decimals, Times
from changeling.formats.format import LeftOut, Outgoing
from changeling.formats.key_changes import rows_to_write
from changeling.formats.options import WriteOptions
from changeling.model import json_text, times
from changeling.model.change import Change
from changeling.model.json_text import quote
from changeling.model.operation import ROW_OPERATIONS, Image, Operation
from changeling.model.table import TableName

_STATUS = {Operation.BEGIN: b'"BEGIN"', Operation.COMMIT: b'"END"'}
_STATEMENTS = ("statement", "ddl", "query")
_ONLY_KEY = "only the message key names the row, and plain files have none; use --carrier kcat"
_USUAL = {"envelope", "wrapper", "key"}
"""What is kept of most messages; others are rebuilt one at a time."""
_SERVER = MemberStruct("source", msgspec.defstruct("_Server", [("name", Any, None)], gc=False))


class DebeziumWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a writer of Debezium's events."""

    connector: str = "changeling"
    """What `source.connector` says."""
    version: str = "3.0.0.Final"
    """What `source.version` says: the release of Debezium whose envelope is written."""
    name: str | None = None
    """The logical name of the server, which topics begin with: by default that of the record, or `changeling`."""
    schemas: bool = False
    """Write the schema part with every payload, as a converter with `schemas.enable=true`."""
    tombstones: bool = True
    """Write a tombstone after every delete, where messages have keys."""
    placeholder: str = PLACEHOLDER
    """The value of a column that a partial image leaves out."""
    times: Times | None = None
    """How dates and times are written: `isostring`, `adaptive` (counts of days and microseconds) or `connect`;
    by default `adaptive` with the schema part, which has the unit, else `isostring`."""
    decimals: Decimals | None = None
    """How decimals are written: `precise` (Base64 of the digits) or `string`; by default `precise` with the schema part,
    which has the scale, else `string`."""

    @property
    def names_topic(self) -> bool:
        """A server was named."""
        return self.name is not None


def writer(options: DebeziumWrite) -> Writer:
    """A function from a change to its messages: a change of the key is a delete, its tombstone, and a create."""
    return _EventWriter(options).records


class _EventWriter:
    """Writes changes with one set of options."""

    def __init__(self, options: DebeziumWrite) -> None:
        self._options, self._name = options, options.name or "changeling"
        names = {"version": options.version, "connector": options.connector, "name": self._name}
        self._names: Members = {name: quote(value) for name, value in names.items()}
        self._placeholder = Placeholder(options.placeholder)
        self._types = WireTypes(options.schemas, options.times, options.decimals)

    def records(self, cells: Cells, out: Cell) -> list[RecordCells]:
        """The messages of one change; raises `CannotCarry` if Debezium has no such record."""
        change = out.change
        meta = kept(cells, out)
        if "record" in meta or "envelope" in meta:
            return [self._original(cells, out, meta)]
        if cells.usually(cells.one_of(change.op, ROW_OPERATIONS)):
            return self._rows(cells, out)
        if change.op is Operation.TRUNCATE:
            return [self._event(cells, out, change)]
        return self._control(out, json_text.members(change.meta or b"{}"))

    def _original(self, cells: Cells, out: Cell, meta: Members) -> RecordCells:
        """The message of a change that was read from one: the shell of its envelope with the images put back into it."""
        options, change = self._options, out.change
        if not (options.keyed and meta.keys() <= _USUAL):
            cells.one_by_one()
        key = message_key(cells, meta, change.key)
        if "record" in meta:
            return RecordCells(meta["record"], key, self._kept_topic(change, meta), headers_of(meta))
        images = {side: self._image(side, getattr(change, side), meta) for side in IMAGES}
        shell = cells.members(meta["envelope"])
        only_key = change.key is not None and change.before is None and change.after is None
        if only_key and not options.keyed and "pair" not in meta and change.op in ROW_OPERATIONS:
            # The message key is not kept: the event must show it.
            if change.op is not Operation.DELETE:
                out.lose("keys-only", _ONLY_KEY)
            images = {"before": as_bytes(change.key)}
            shell = shell if "before" in shell else {"before": b"null", **shell}
        value = rewrapped(cells, cells.refilled(shell, images), meta)
        if "pair" in meta:
            names = PAIR if meta["pair"] == b"true" else map(json_text.string, json_text.items(meta["pair"]))
            value = json_text.join((name, key or b"null" if name == "key" else value) for name in names)
        own = cells.struct(_SERVER, cells.value(shell, "source")) if options.name is None else Absent()
        return RecordCells(value, key, cells.each(self._topic, change.table, cells.as_text(own.name)), headers_of(meta))

    def _image(self, side: str, image: Cell, meta: Members) -> Cell:
        """An image as the event had it."""
        if image is None or (side == "after" and "derived" in meta):
            return None
        if (note := meta.get(f"unavailable_{side}")) is not None:
            image = self._placeholder.restored_in(as_bytes(image), note)
        return quote(as_bytes(image).decode()) if f"text_{side}" in meta else image

    def _rows(self, cells: Cells, out: Cell) -> list[RecordCells]:
        if self._types.convert:
            cells.one_by_one()
        rows = rows_to_write(cells, out, in_part=True)
        events = [
            self._event(cells, out, row if cells.is_columnar else _shifted(row, out.progress.moved + place))
            for place, row in enumerate(rows)
        ]
        if len(rows) == 2:
            old, new = events[0].key, events[1].key
            events = [events[0]._replace(headers=((NEW_KEY, new),)), events[1]._replace(headers=((OLD_KEY, old),))]
        if not (self._options.tombstones and self._options.keyed):
            return events
        records = []
        for row, event in zip(rows, events, strict=True):
            deleted = cells.equal(row.op, Operation.DELETE) & cells.present(event.key)
            records += [event, RecordCells(None, event.key, event.topic, where=deleted)]
        return records

    def _event(self, cells: Cells, out: Cell, change: Cell) -> RecordCells:
        """The event of one row, or of a table that became empty."""
        topic = cells.each(self._topic, change.table)
        key_names = () if cells.is_columnar else tuple(json_text.members(change.key or b"{}"))
        wire = Wire() if cells.is_columnar else self._types.of(change.schema, topic or "", key_names)
        if cells.is_columnar:
            key, before, after = _as_they_are(cells, change)
            traces = self._placeholder.traces
            cells.usually(~(cells.contains(before, traces) | cells.contains(after, traces)))
        else:
            key, before, after = self._converted(out, change, wire)
        images = {"before": cells.or_null(before), "after": cells.or_null(after)}
        clocks = _clocks(cells, change.commit_time)
        marks = self._marks(cells, change, before, after, key)
        value = cells.json_object(
            {
                **(images if cells.is_columnar or change.op is not Operation.TRUNCATE else {}),
                "source": self._source(cells, out, change, clocks, marks),
                "transaction": _transaction(cells, change.transaction),
                "op": cells.each(_letter, change.op),
                **clocks,
            }
        )
        if wire.value_schema is not None:
            value = b'{"schema":%b,"payload":%b}' % (wire.value_schema, value)
            if key is not None and wire.key_schema is not None:
                key = b'{"schema":%b,"payload":%b}' % (wire.key_schema, key)
        return RecordCells(value, key, topic)

    def _converted(self, out: Outgoing, change: Change, wire: Wire) -> Sequence[bytes | None]:
        """The key and the images as the wire has them."""
        key = wire.converted(change.key)
        before: dict[str, bytes] | None = None
        after: dict[str, bytes] | None = None
        if change.before is not None and change.before_image is not Image.NONE:
            columns = wire.converted(change.before)
            before = columns or key if change.before_image is Image.KEY else _with_key(columns, key)
        elif change.op is Operation.DELETE:
            # The event itself must name the row: many readers of deletes look nowhere else.
            before = key or None
        if change.after is not None and change.op is not Operation.DELETE:
            absent = wire.columns if change.after_image is Image.PARTIAL else ()
            after = _with_key(wire.converted(change.after), key)
            self._check_placeholder(out, after, key)
            after = {**dict.fromkeys(absent, self._placeholder.plain), **after}
        self._check_placeholder(out, before or {}, key)
        return [
            None if columns is None else json_text.join(columns.items()) for columns in (key or None, before, after)
        ]

    def _check_placeholder(self, out: Outgoing, columns: Mapping[str, bytes], key: Mapping[str, bytes]) -> None:
        """A value that reads as the placeholder is a loss; in a key, nothing else in a plain file would name the row."""
        name = self._placeholder.found_in(columns)
        if name is None:
            return
        out.lose(
            "placeholder", f"column {name!r} is the placeholder, by which a reader knows a column that was not sent"
        )
        if not self._options.keyed and self._placeholder.found_in(key) is not None:
            raise LeftOut("placeholder")

    def _marks(self, cells: Cells, change: Cell, before: Cell, after: Cell, key: Cell) -> Cell:
        """What a reader cannot see from the event itself."""
        seen = cells.each_object(before_image, before, after, key)
        visible = ~cells.present(change.before) | ~cells.present(seen) | cells.equal(seen, change.before_image)
        in_part = cells.equal(change.after_image, Image.PARTIAL)
        if cells.any(in_part) and after is not None:
            in_part &= self._placeholder.plain not in json_text.members(after).values()
        return cells.each(_mark, change.op, cells.where(visible, None, change.before_image), in_part)

    def _source(self, cells: Cells, out: Cell, change: Cell, clocks: Members, marks: Cell = None) -> Cell:
        """The source block of one event; an empty text replaces a part of the name that the table does not have."""
        database, schema, name = (cells.each(part, change.table) for part in _NAME_PARTS)
        placed = cells.present(change.position) & ~cells.mask(out.arrived)
        return cells.json_object(
            {
                **self._names,
                "ts_ms": clocks["ts_ms"],
                "snapshot": cells.where(cells.equal(change.op, Operation.READ), b'"true"', b'"false"'),
                "db": database,
                **clocks,
                "schema": schema,
                "table": name,
                "position": cells.where(placed, cells.joined(b'"', change.position, b'"'), None),
                "changeling": marks,
            }
        )

    def _topic(self, table: TableName | None, server: str | None = None) -> str | None:
        """`prefix.schema.table`, the database in the schema's place where there is no schema."""
        if table is None:
            return None
        parts = (server or self._name, table.schema or table.catalog, table.name)
        return ".".join(part for part in parts if part is not None)

    def _kept_topic(self, change: Change, meta: Members) -> str | None:
        """The topic that a record which is not a row came from, unless the user chose another name."""
        if "topic" in meta and self._options.name is None:
            return json_text.string(meta["topic"])
        return self._topic(change.table)

    def _control(self, out: Outgoing, meta: Members) -> list[RecordCells]:
        """The messages of a change that touches no row."""
        if out.change.op in _STATUS:
            return self._boundary(out)
        if out.change.op is Operation.DDL:
            return self._statement(out, meta)
        if out.change.op is not Operation.MESSAGE:
            out.lose(out.change.op.value, "Debezium has no record for it")
            return []
        if "tombstone" not in meta:
            return self._message(out, meta)
        own = meta if out.native else {}
        key = message_key(SCALARS, own, out.change.key)
        return [RecordCells(None, key, self._kept_topic(out.change, own), headers_of(own))]

    def _boundary(self, out: Outgoing) -> list[RecordCells]:
        change = out.change
        if change.transaction is None:
            out.lose(change.op.value, "a mark names its transaction, and this one names none")
            return []
        name, clocks = quote(change.transaction.id), _clocks(SCALARS, change.commit_time)
        value = {
            "status": _STATUS[change.op],
            "id": name,
            "ts_ms": clocks["ts_ms"],
            "event_count": quote(change.transaction.total),
            "data_collections": b"null",
            **clocks,
            "position": None if out.arrived or change.position is None else quote(change.position),
        }
        return self._wrapped(value, {"id": name}, "transaction")

    def _statement(self, out: Outgoing, meta: Members) -> list[RecordCells]:
        statement = next((meta[name] for name in _STATEMENTS if meta.get(name, b"")[:1] == b'"'), None)
        if statement is None:
            out.lose("ddl", "a schema change contains the statement, and this change does not have it")
            return []
        clocks = _clocks(SCALARS, out.change.commit_time)
        value = {
            "source": self._source(SCALARS, out, out.change, clocks),
            "ts_ms": clocks["ts_ms"],
            "databaseName": _name_part("catalog", out.change.table),
            "schemaName": quote(out.change.table and out.change.table.schema),
            "ddl": statement,
            "tableChanges": b"[]",
        }
        return self._wrapped(value, {"databaseName": value["databaseName"]}, None)

    def _message(self, out: Outgoing, meta: Members) -> list[RecordCells]:
        change = out.change
        prefix = meta.get("prefix", b"")
        prefix = prefix if prefix[:1] == b'"' else b'"changeling"'
        content = meta.get("content", json_text.join(meta.items()))
        text = json_text.string(content).encode() if content[:1] == b'"' else content
        clocks = _clocks(SCALARS, change.commit_time)
        value = {
            "source": self._source(SCALARS, out, change, clocks),
            "transaction": None if change.transaction is None else _transaction(SCALARS, change.transaction),
            "op": b'"m"',
            "ts_ms": clocks["ts_ms"],
            "message": SCALARS.json_object({"prefix": prefix, "content": quote(text)}),
        }
        return self._wrapped(value, {"prefix": prefix}, "message")

    def _wrapped(self, value: Members, key: Members, topic: str | None) -> list[RecordCells]:
        """The message; its schema part, if requested, is null: the payload has no columns of a table."""
        texts = [SCALARS.json_object(members) for members in (value, key)]
        if self._options.schemas:
            texts = [b'{"schema":null,"payload":%b}' % text for text in texts]
        return [RecordCells(texts[0], texts[1], self._name if topic is None else f"{self._name}.{topic}")]


def _with_key(columns: dict[str, bytes], key: dict[str, bytes]) -> dict[str, bytes]:
    """The columns with those of the key in front that are missing."""
    missing = {name: value for name, value in key.items() if name not in columns}
    return {**missing, **columns} if missing else columns


def _as_they_are(cells: Cells, change: Cell) -> Sequence[Cell]:
    """The key and the images of rows that are written as they are."""
    named = cells.where(cells.equal(change.op, Operation.DELETE), change.key, None)
    return change.key, cells.first(change.before, named), change.after


def _clocks(cells: Cells, nanos: Cell) -> Members:
    """A time in milliseconds, and the finer clocks, where it needs them."""
    millis = cells.units(nanos, times.NANOS_PER_MILLI)
    finer = cells.present(nanos) & ~cells.equal(cells.time(millis, times.NANOS_PER_MILLI), nanos)
    found = {"ts_ms": cells.int_json(millis)}
    for name, unit in (("ts_us", 1_000), ("ts_ns", 1)) if cells.any(finer) else ():
        found[name] = cells.where(finer, cells.int_json(cells.units(nanos, unit)), None)
    return found


def _transaction(cells: Cells, transaction: Cell) -> Cell:
    found = cells.fields(transaction)
    block = transaction_block(cells, found.id, found.total, found.order)
    return cells.where(cells.present(found.id), block, b"null")


def _letter(op: Operation) -> bytes:
    return quote(LETTERS[op])


def _name_part(part: str, table: TableName | None) -> bytes:
    return quote((table and getattr(table, part)) or "")


_NAME_PARTS = [functools.partial(_name_part, part) for part in ("catalog", "schema", "name")]


def _mark(op: Operation, image: Image | None, in_part: bool) -> bytes | None:
    op = Operation(op)
    marks = Marks(
        op=None if OPERATIONS[LETTERS[op]] is op else op,
        before_image=None if image is None else Image(image),
        after_image=Image.PARTIAL if in_part else None,
    )
    return None if marks == Marks() else quote(marks)


def _shifted(change: Change, more: int) -> Change:
    """The change at its place in the transaction, shifted by the events that the source did not have: moved rows are two."""
    found = change.transaction
    if not more or found is None or found.order is None:
        return change
    return msgspec.structs.replace(change, transaction=msgspec.structs.replace(found, order=found.order + more))
