"""`ydb-debezium`: YDB's changefeeds with FORMAT = DEBEZIUM_JSON, in every mode (seed 004).

Which images a record has is decided by the changefeed's mode; the key of the row is outside of the record.
"""

import functools

import msgspec

from changeling.envelope.cells import Cell, Cells, Members, MemberStruct
from changeling.envelope.reading import ChangeCells, Reader
from changeling.envelope.scalar_cells import SCALARS
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats import debezium_envelope as debezium
from changeling.formats.capabilities import carrying
from changeling.formats.changefeed import (
    CARRIED,
    NAMELESS,
    UINT64_END,
    ChangefeedRead,
    ChangefeedWrite,
    Mode,
    time_of_step,
)
from changeling.formats.format import Format, Outgoing
from changeling.formats.key_changes import rows_to_write
from changeling.formats.time_counts import MILLI
from changeling.formats.transaction_progress import number_of
from changeling.formats.ydb_json.types import TYPES
from changeling.formats.ydb_json.write import lose_order, shown
from changeling.model import json_text, position
from changeling.model.change import Record
from changeling.model.errors import Rejected
from changeling.model.operation import ROW_OPERATIONS, Image, Operation

CONNECTOR = "ydb"
KEY_HEADER = "__key"
"""YDB's own clients find the key here, Kafka's in the message key."""
MEMBERS = ("op", *debezium.IMAGES, "source")
"""As YDB writes them; a record has the images that its change has."""
BY_STEP = -(2**62)
"""No time of its own."""


class _Source(msgspec.Struct, gc=False):
    """What the reader needs of `source`; the rest of it, such as `user`, is kept as it is."""

    connector: str | None = None
    ts_ms: int | None = BY_STEP
    """null where the time is not known; where it is missing, the step gives it."""
    step: int | None = None
    transaction: int | None = msgspec.field(name="txId", default=None)


_SOURCE = MemberStruct("source", _Source)
_by_letter = debezium.operation_by(debezium.OPERATIONS, "YDB")


def reader(options: ChangefeedRead) -> Reader:
    """A function from a record to its change."""
    # OLD_IMAGE shows every row that existed before.
    overwrite = Operation.INSERT if Mode.named(options.mode) is Mode.OLD_IMAGE else Operation.UPSERT
    operation = functools.partial(_operation, overwrite)
    schema_text = functools.lru_cache(maxsize=4096)(options.keyed_schema_text)
    key_names = functools.lru_cache(maxsize=4096)(options.key_of)

    def read(cells: Cells, record: Record) -> ChangeCells:
        columns, _ = debezium.key_columns(
            cells, dict(record.headers).get(KEY_HEADER) if record.key is None else record.key
        )
        table = cells.each(options.table_of, record.topic)
        if record.value is None:
            key = None if columns is None else cells.key_in_row(columns, None)
            return ChangeCells(Operation.MESSAGE, table, key, meta=_meta(cells, {"tombstone": b"true"}, record, key))
        cells.expect(cells.present(table), NAMELESS)
        wrapper = cells.members(record.value) if "payload" in cells.names(record.value) else {}
        text, name = (wrapper["payload"], "payload") if wrapper else (record.value, "")
        payload = cells.members(text, name, optional=debezium.IMAGES, usual=MEMBERS)
        if "op" not in payload:
            cells.refuse("not a record of YDB's Debezium form: its payload has no `op`")
        source = cells.struct(_SOURCE, payload.get("source"))
        cells.expect(
            cells.holds(lambda connector: connector in (None, CONNECTOR), source.connector),
            lambda: f"the connector is {source.connector!r}, not 'ydb'; read it with --from debezium-json",
        )
        before, after = (_image(cells, payload, side) for side in debezium.IMAGES)
        op = cells.each(operation, payload["op"], cells.present(before), cells.present(after))
        if not cells.usually(~cells.equal(op, Operation.READ) | cells.present(after)):
            # OLD_IMAGE shows the rows of a scan as old ones, though they are the current ones.
            before, after = None, before
        row = cells.first(after, before)
        cells.expect(cells.present(row) | (columns is not None), _ROWLESS)
        key = debezium.row_key(cells, row, columns, cells.common(cells.each(key_names, table)))
        meta = {"payload": cells.json_object(payload, debezium.IMAGES)}
        if not wrapper:
            meta["bare"] = b"true"
        elif len(wrapper) > 1:
            meta["wrapper"] = cells.json_object(wrapper, ("payload",))
        return ChangeCells(
            op=op,
            table=table,
            key=key,
            before=before,
            after=after,
            meta=_meta(cells, meta, record, key),
            schema=cells.each(schema_text, table),
            **_stamp(cells, source),
        )

    return read


_ROWLESS = (
    "nothing names the row: the record has no image, no message key and no header `__key`;"
    " read it with its keys (--carrier kcat)"
)


def _image(cells: Cells, payload: Members, side: str) -> Cell:
    raw = cells.value(payload, side)
    cells.expect(~cells.present(raw) | cells.starts(raw, b"{"), f"`{side}` must be an object")
    return raw


def _operation(overwrite: Operation, raw: bytes, has_before: bool, has_after: bool) -> Operation:
    """The operation. A mode without the row after leaves a write without one: the row is unknown."""
    op = _by_letter(raw)
    if op is Operation.DELETE and has_after:
        raise Rejected("op 'd' with a row in `after`")
    if op is Operation.INSERT and not has_after:
        raise Rejected("op 'c' without a row in `after`: only NEW_AND_OLD_IMAGES has it, which shows the row")
    return overwrite if op is Operation.UPDATE and not has_before else op


def _stamp(cells: Cells, source: _Source) -> dict[str, Cell]:
    """The position, the transaction that is a part of it, and the commit time."""
    found: dict[str, Cell] = {}
    step, transaction = source.step, source.transaction
    if cells.branch(cells.present(step) & cells.present(transaction)):
        for number in (step, transaction):
            fits = cells.less(number, UINT64_END) & ~cells.less(number, 0)
            cells.expect(fits, "source.step and source.txId must be whole numbers of 64 bits")
        found["position"] = cells.position(step, transaction)
        found["transaction"] = cells.transaction(cells.int_text(transaction))
    if cells.usually(~cells.equal(source.ts_ms, BY_STEP)):
        found["commit_time"] = cells.time(source.ts_ms, MILLI)
    elif step is not None:
        found["commit_time"] = time_of_step(step)
    return found


def _meta(cells: Cells, meta: Members, record: Record, key: Cell) -> Cell:
    """`meta` with the headers, and the message key where it is not the usual wrapper around the canonical one."""
    if record.key is None and any(name == KEY_HEADER for name, _ in record.headers):
        meta["key_in_header"] = b"true"
    return cells.json_object(meta | debezium.remembered(cells, record, _wrapped(cells, key)))


def _wrapped(cells: Cells, key: Cell) -> Cell:
    """The message key that YDB writes."""
    return cells.joined(b'{"payload":', key, b"}")


def writer(options: ChangefeedWrite) -> Writer:
    """A function from a change to its records, in the shape that they had, or in that of a mode."""
    mode = Mode.named(options.mode)
    letter = functools.partial(_letter, mode)

    def write(cells: Cells, out: Cell) -> list[RecordCells]:
        change, meta = out.change, kept(cells, out)
        topic = cells.each(options.topic_of, change.table)
        if "headers" in meta:
            cells.one_by_one()
        headers = debezium.headers_of(meta)
        own_key = None if "key_in_header" in meta else debezium.message_key(cells, meta, _wrapped(cells, change.key))
        if not cells.usually(cells.one_of(change.op, ROW_OPERATIONS)):
            return [RecordCells(None, own_key, topic, headers)]
        if meta and mode is None:
            _check_key(cells, out, change.before, change.after, options.keyed)
            return [RecordCells(_original_value(cells, change, meta), own_key, topic, headers)]
        records = []
        rows = rows_to_write(cells, out, apart=True)
        source = cells.members(meta["payload"]).get("source") if meta else None
        if source is None:
            source = _new_source(cells, out, moves=len(rows) > 1)
        for row in rows:
            out.change = row
            before, after = _images(cells, out, mode)
            _check_key(cells, out, before, after, options.keyed)
            op = cells.joined(b'"', cells.each(letter, row.op, row.after_image), b'"')
            value = cells.json_object(
                {"payload": cells.json_object(dict(zip(MEMBERS, (op, before, after, source), strict=True)))}
            )
            key = None if "key_in_header" in meta else _wrapped(cells, row.key)
            records.append(RecordCells(value, key, topic, headers))
        return records

    return write


def _check_key(cells: Cells, out: Cell, before: Cell, after: Cell, keyed: bool) -> None:
    if not keyed:
        cells.lose(out, ~(cells.present(before) | cells.present(after)), "keys-only", _ONLY_KEY)


_ONLY_KEY = (
    "a record without images names its row only in the message key, and plain files have none; use --carrier kcat"
)


def _original_value(cells: Cells, change: Cell, meta: Members) -> Cell:
    payload = cells.members(meta["payload"])
    before = change.before
    if "after" not in payload:
        before = cells.where(cells.equal(change.op, Operation.READ), change.after, before)
    value = cells.refilled(payload, {"before": before, "after": change.after})
    if "bare" in meta:
        return value
    return debezium.rewrapped(cells, value, meta) if "wrapper" in meta else cells.json_object({"payload": value})


def _images(cells: Cells, out: Cell, mode: Mode | None) -> tuple[Cell, Cell]:
    """The images that the mode shows of a change, key columns among them."""
    change = out.change
    if mode in (Mode.KEYS_ONLY, Mode.UPDATES):
        return None, None
    content = shown(cells, out, mode, reset=False)
    old = content.old_image
    if mode is Mode.OLD_IMAGE:
        # A scan shows current rows, and this mode has no other member for them.
        scanned = cells.equal(change.op, Operation.READ) & cells.equal(change.after_image, Image.FULL)
        old = cells.where(scanned, cells.without_key(change.after, change.key), old)
    return cells.with_key(old, change.key), cells.with_key(content.new_image, change.key)


def _letter(mode: Mode | None, op: Operation, after_image: Image) -> str:
    if op == Operation.INSERT and (after_image != Image.FULL or mode not in (None, Mode.NEW_AND_OLD_IMAGES)):
        return "u"
    return debezium.LETTERS[op]


def _new_source(cells: Cells, out: Cell, moves: bool) -> Cell:
    time = out.change.commit_time
    timed = cells.present(time)
    why = "every record has ts_ms, the time of the commit, and this change declares none"
    cells.lose(out, ~timed, "commit_time", why)
    millis = cells.units(time, MILLI)
    exact = cells.equal(cells.time(millis, MILLI), time) & ~cells.less(millis, 0)
    why = "ts_ms counts milliseconds since 1970, and this time is earlier or has more digits"
    cells.lose(out, timed & ~exact, "commit_time", why)
    out.placed = step, transaction = _new_stamp(cells, out, moves)
    source = {
        "connector": json_text.quote(CONNECTOR),
        "version": b'"1.0.0"',
        "ts_ms": cells.int_json(cells.at_least(millis, 0)),
        "step": cells.int_json(step),
        "txId": cells.int_json(transaction),
        "snapshot": cells.where(cells.equal(out.change.op, Operation.READ), b"true", b"false"),
    }
    return cells.json_object(source)


def _new_stamp(cells: Cells, out: Cell, moves: bool) -> tuple[Cell, Cell]:
    """Step and txId, one pair for all records of a transaction: a position of this kind, or one inside the transaction.

    `moves`: the change is two records, the row leaves one key for another.
    """
    step, number = cells.components(cells.where(cells.mask(out.arrived), None, out.change.position), 2)
    declared = cells.fields(out.change.transaction)
    together = cells.present(declared.id)
    own = ~together | cells.equal(declared.id, cells.int_json(number))
    inside = ~own & cells.equal(declared.id, cells.int_json(step))
    usual = (own | inside) & cells.less(step, UINT64_END) & cells.less(number, UINT64_END)
    if not (cells.is_columnar or not out.halves) or not cells.usually(usual):
        return _other_stamp(out, moves)
    lose_order(cells, out, together)
    cells.lose(out, inside, "position", _ONE_PAIR)
    return step, cells.where(inside, step, number)


_ONE_PAIR = "all records of a transaction have one step and txId, this position distinguishes them"


def _other_stamp(out: Outgoing, moves: bool) -> tuple[int, int]:
    """The pair of a change without a position of this kind: its own place, or that of its transaction, in the output."""
    change = out.change
    parts = position.decode(change.position) if change.position is not None and not out.arrived else ()
    if parts and (len(parts) != 2 or max(parts) >= UINT64_END):
        out.lose(
            "position", "a record orders by step and txId, two numbers of 64 bits, and this position is not such a pair"
        )
        parts = ()
    elif parts and out.halves and moves:
        out.lose("position", _ONE_PAIR)
    declared = change.transaction
    if declared is None:
        return (parts[0], parts[0] if out.halves else parts[1]) if parts else (out.progress.ordinal, out.running)
    # Such a position is the place of the transaction, and then one inside it: records have only the former.
    inside = bool(parts) and (parts[1] == declared.order or declared.id == str(parts[0]))
    number = number_of(declared.id, UINT64_END)
    if number is None or (parts and not inside):
        out.lose("transaction", f"the id {declared.id!r} is not the txId of a position, which names the transaction")
        number = None
    lose_order(SCALARS, out, True)
    if parts and not (out.halves and inside):
        out.lose("position", _ONE_PAIR)
    step = parts[0] if inside else out.progress.ordinal
    return step, step if number is None else number


FORMAT = Format(
    name="ydb-debezium",
    summary="YDB's changefeeds, FORMAT = DEBEZIUM_JSON: images as the MODE shows them, the key in the message key",
    read_options=ChangefeedRead,
    write_options=ChangefeedWrite,
    reader=reader,
    writer=writer,
    carries=carrying(*CARRIED, "read", "insert", "transaction"),
    types=TYPES,
    position="step, txId",
    counts_transactions=True,
    names_table=False,
    feed_modes=tuple(Mode),
    signs=(("op", "source.connector=ydb"), ("payload.op", "payload.source.connector=ydb")),
)
