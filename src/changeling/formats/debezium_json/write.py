"""Changes into Debezium's events: native ones as they were, others in an envelope of our own connector."""

import functools

import msgspec

from changeling.envelope.cells import Cell, Cells
from changeling.envelope.writing import RecordCells, Writer
from changeling.formats.debezium_json.control_writing import ControlEventWriter
from changeling.formats.debezium_json.envelope import LETTERS, NEW_KEY, OLD_KEY, OPERATIONS, Marks, Placeholder
from changeling.formats.debezium_json.images import Columns, before_image, with_key, with_placeholders
from changeling.formats.debezium_json.options import DebeziumWrite
from changeling.formats.debezium_json.round_trip import original_message
from changeling.formats.debezium_json.source import clock, server_name, source_of, topic_of, transaction_text
from changeling.formats.debezium_json.wire import Wire, WireTypes
from changeling.formats.key_changes import rows_to_write
from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.json_text import quote
from changeling.model.operation import ROW_OPERATIONS, Image, Operation

_ROWS = [operation.value for operation in ROW_OPERATIONS]


def writer(options: DebeziumWrite) -> Writer:
    """A function from a change to its messages: a change of the key is a delete, its tombstone, and a create."""
    rows, control = _RowWriter(options), ControlEventWriter(options)

    def write(cells: Cells, out: Cell) -> list[RecordCells]:
        if out.native and out.change.meta is not None:
            meta = cells.members(out.change.meta)
            if "record" in meta or "envelope" in meta:
                return [original_message(cells, out, meta, options)]
        if cells.only(cells.one_of(out.change.op, _ROWS)):
            return rows.records(cells, out)
        if out.change.op is Operation.TRUNCATE:
            return [rows.record(cells, out, out.change)]
        return control.records(out)

    return write


class _RowWriter:
    """Writes changes of rows with one set of options."""

    def __init__(self, options: DebeziumWrite) -> None:
        self._options = options
        self._placeholder = Placeholder(options.placeholder)
        self._types = WireTypes(options)
        self._topic = functools.partial(topic_of, prefix=server_name(options))

    def records(self, cells: Cells, out: Cell) -> list[RecordCells]:
        """The messages of one change."""
        if self._types.convert:
            cells.alone()
        rows = rows_to_write(cells, out, in_part=True)
        events = [
            self.record(cells, out, row if cells.many else _shifted(row, out.progress.moved + place))
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

    def record(self, cells: Cells, out: Cell, change: Cell) -> RecordCells:
        """The event of one row."""
        topic = cells.each(self._topic, change.table)
        wire = Wire() if cells.many else self._types.of(change, topic or "")
        key, before, after = (change.key, *_images(cells, change)) if cells.many else self._shown(change, wire)
        images: list[Cell] = [b"{"]
        if cells.many or change.op is not Operation.TRUNCATE:
            images = [b'{"before":', cells.filled(before), b',"after":', cells.filled(after), b","]
        millis, finer = clock(cells, change.commit_time)
        value = cells.joined(
            *images,
            b'"source":',
            source_of(cells, out, change, self._options, self._marks(cells, change, before, after, key)),
            b',"transaction":',
            transaction_text(cells, change.transaction),
            b',"op":"',
            cells.each(LETTERS.get, change.op),
            b'","ts_ms":',
            millis,
            finer,
            b"}",
        )
        if wire.value_schema is not None:
            value = b'{"schema":%b,"payload":%b}' % (wire.value_schema, value)
            if key is not None and wire.key_schema is not None:
                key = b'{"schema":%b,"payload":%b}' % (wire.key_schema, key)
        return RecordCells(value, key, topic)

    def _shown(self, change: Change, wire: Wire) -> tuple[bytes | None, bytes | None, bytes | None]:
        """The key and the images as the wire has them."""
        key = wire.converted(json_text.members(change.key or b"{}"))
        before: Columns | None = None
        after: Columns | None = None
        if change.before is not None and change.before_image is not Image.NONE:
            columns = wire.converted(json_text.members(change.before))
            before = columns or key if change.before_image is Image.KEY else with_key(columns, key)
        elif change.op is Operation.DELETE and key:
            # The event itself must name the row: many readers of deletes look nowhere else.
            before = key
        if change.after is not None and change.op is not Operation.DELETE:
            after = with_key(wire.converted(json_text.members(change.after)), key)
            if change.after_image is Image.PARTIAL and wire.columns:
                after = with_placeholders(after, wire.columns, self._placeholder)
        found = [
            None if columns is None else json_text.join(columns.items()) for columns in (key or None, before, after)
        ]
        return found[0], found[1], found[2]

    def _marks(self, cells: Cells, change: Cell, before: Cell, after: Cell, key: Cell) -> Cell:
        """What a reader cannot see from the event itself, with a comma in front."""
        seen = cells.by_names(before_image, before, after, key)
        visible = ~cells.present(change.before) | ~cells.present(seen) | cells.equal(seen, change.before_image)
        in_part = cells.equal(change.after_image, Image.PARTIAL)
        if cells.any(in_part) and after is not None:
            in_part &= self._placeholder.plain not in json_text.members(after).values()
        return cells.each(_mark, change.op, cells.where(visible, None, change.before_image), in_part)


def _images(cells: Cells, change: Cell) -> tuple[Cell, Cell]:
    """The images of rows that can be written as they are."""
    named = cells.where(cells.equal(change.op, Operation.DELETE), change.key, None)
    return cells.first(change.before, named), change.after


def _mark(op: Operation, image: Image | None, in_part: bool) -> bytes:
    op = Operation(op)
    marks = Marks(
        op=None if OPERATIONS[LETTERS[op]] is op else op,
        before_image=None if image is None else Image(image),
        after_image=Image.PARTIAL if in_part else None,
    )
    return b"" if marks == Marks() else b',"changeling":%b' % quote(marks)


def _shifted(change: Change, more: int) -> Change:
    """The change at its place in the transaction, shifted by the events that the source did not have: moved rows are two."""
    found = change.transaction
    if not more or found is None or found.order is None:
        return change
    return msgspec.structs.replace(change, transaction=msgspec.structs.replace(found, order=found.order + more))
