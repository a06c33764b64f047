"""Changes into YDB's Debezium records, in the shape that they had, or in that of a mode."""

import functools

from changeling.envelope.cells import Cell, Cells, Condition, Members
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats.debezium_envelope import LETTERS, headers_of, message_key
from changeling.formats.format import Outgoing
from changeling.formats.key_changes import rows_to_write
from changeling.formats.transaction_progress import number_of
from changeling.formats.ydb_debezium.envelope import CONNECTOR, VERSION
from changeling.formats.ydb_debezium.read import wrapped_key
from changeling.formats.ydb_json.envelope import UINT64, Mode
from changeling.formats.ydb_json.images import shown
from changeling.formats.ydb_json.topic import ChangefeedWrite, topic_of
from changeling.model import position
from changeling.model.change import Transaction
from changeling.model.operation import ROW_OPERATIONS, Image, Operation

_MILLISECOND = 1_000_000
_WITHOUT_IMAGES = (Mode.KEYS_ONLY, Mode.UPDATES)


def writer(options: ChangefeedWrite) -> Writer:
    """A function from a change to its records."""
    mode = Mode.named(options.mode)
    topic_of_table = functools.partial(topic_of, feed=options.feed or "feed")
    letter = functools.partial(_letter, mode)

    def write(cells: Cells, out: Cell) -> list[RecordCells]:
        change = out.change
        topic = cells.each(topic_of_table, change.table)
        meta = kept(cells, out)
        if "headers" in meta:
            cells.alone()
        if not cells.only(cells.one_of(change.op, ROW_OPERATIONS)):
            return [RecordCells(None, _key(cells, change, meta), topic, headers_of(meta))]
        if meta and mode is None:
            _check_key(cells, out, cells.present(change.before) | cells.present(change.after), options.keyed)
            value = _original_value(cells, change, meta)
            return [RecordCells(value, _key(cells, change, meta), topic, headers_of(meta))]
        records = []
        rows = rows_to_write(cells, out, apart=True)
        source = cells.members(meta["payload"]).get("source") if meta else None
        if source is None:
            source = _source(cells, out, moves=len(rows) > 1)
        for row in rows:
            out.change = row
            before, after = _images(cells, out, mode)
            _check_key(cells, out, cells.present(before) | cells.present(after), options.keyed)
            value = cells.joined(
                b'{"payload":{"op":"',
                cells.each(letter, row.op, row.after_image),
                b'"',
                cells.first(cells.joined(b',"before":', before), b""),
                cells.first(cells.joined(b',"after":', after), b""),
                b',"source":',
                source,
                b"}}",
            )
            key = None if "key_in_header" in meta else wrapped_key(cells, row.key)
            records.append(RecordCells(value, key, topic, headers_of(meta)))
        return records

    return write


def _key(cells: Cells, change: Cell, meta: Members) -> Cell:
    return None if "key_in_header" in meta else message_key(cells, meta, wrapped_key(cells, change.key))


def _check_key(cells: Cells, out: Cell, shown: Condition, keyed: bool) -> None:
    if not keyed:
        cells.lose(
            out,
            ~shown,
            "keys-only",
            "a record without images names its row only in the message key, and plain files have none;"
            " use --carrier kcat",
        )


def _original_value(cells: Cells, change: Cell, meta: Members) -> Cell:
    payload = cells.members(meta["payload"])
    before = change.before
    if "after" not in payload:
        before = cells.where(cells.equal(change.op, Operation.READ), change.after, before)
    value = cells.filled_shell(payload, {"before": before, "after": change.after})
    if "bare" in meta:
        return value
    wrapper = cells.members(meta["wrapper"]) if "wrapper" in meta else {"payload": value}
    return cells.filled_shell(wrapper, {"payload": value})


def _images(cells: Cells, out: Cell, mode: Mode | None) -> tuple[Cell, Cell]:
    """The images that the mode shows of a change, key columns among them."""
    change = out.change
    if mode in _WITHOUT_IMAGES:
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
    return LETTERS[op]


def _source(cells: Cells, out: Cell, moves: bool) -> Cell:
    millis = _milliseconds(cells, out)
    step, transaction = _virtual_timestamp(cells, out, moves)
    return cells.joined(
        b'{"connector":"%b","version":"%b","ts_ms":' % (CONNECTOR.encode(), VERSION.encode()),
        cells.digits(millis),
        b',"step":',
        cells.digits(step),
        b',"txId":',
        cells.digits(transaction),
        b',"snapshot":',
        cells.where(cells.equal(out.change.op, Operation.READ), b"true", b"false"),
        b"}",
    )


def _milliseconds(cells: Cells, out: Cell) -> Cell:
    time = out.change.commit_time
    timed = cells.present(time)
    cells.lose(
        out, ~timed, "commit_time", "every record has ts_ms, the time of the commit, and this change declares none"
    )
    millis = cells.units(time, _MILLISECOND)
    exact = cells.equal(cells.time(millis, _MILLISECOND), time) & ~cells.less(millis, 0)
    cells.lose(
        out,
        timed & ~exact,
        "commit_time",
        "ts_ms counts milliseconds since 1970, and this time is earlier or has more digits",
    )
    return cells.at_least(millis, 0)


def _virtual_timestamp(cells: Cells, out: Cell, moves: bool) -> tuple[Cell, Cell]:
    """Step and txId, one pair for all records of a transaction: a position of this kind, or one inside the transaction.

    `moves`: the change is two records, the row leaves one key for another.
    """
    step, number = cells.components(cells.where(cells.mask(out.arrived), None, out.change.position), 2)
    declared = cells.fields(out.change.transaction)
    together = cells.present(declared.id)
    own = ~together | cells.equal(declared.id, cells.digits(number))
    inside = ~own & cells.equal(declared.id, cells.digits(step))
    usual = (own | inside) & cells.less(step, UINT64) & cells.less(number, UINT64)
    if not (cells.many or not out.halves) or not cells.only(usual):
        return _other_timestamp(out, moves)
    cells.lose(
        out, together & (cells.present(declared.order) | cells.present(declared.total)), "transaction", _NO_ORDER
    )
    cells.lose(out, inside, "position", _ONE_PAIR)
    transaction = cells.where(inside, step, number)
    out.placed = step, transaction
    return step, transaction


_NO_ORDER = "a record has the transaction's id, but no order inside it or over all"
_ONE_PAIR = "all records of a transaction have one step and txId, this position distinguishes them"


def _other_timestamp(out: Outgoing, moves: bool) -> tuple[int, int]:
    """The pair of a change without a position of this kind: its own place, or that of its transaction, in the output."""
    change = out.change
    parts = position.decode(change.position) if change.position is not None and not out.arrived else ()
    if parts and (len(parts) != 2 or max(parts) >= UINT64):
        out.lose("position", "a record orders by step and txId, two numbers of 64 bits; this position is another")
        parts = ()
    elif parts and out.halves and moves:
        out.lose("position", _ONE_PAIR)
    declared = change.transaction
    if declared is not None:
        step, transaction = _of_transaction(out, declared, parts)
    elif parts:
        step, transaction = parts[0], parts[0] if out.halves else parts[1]
    else:
        step, transaction = out.progress.ordinal, out.running
    out.placed = step, transaction
    return step, transaction


def _of_transaction(out: Outgoing, declared: Transaction, parts: tuple[int, ...]) -> tuple[int, int]:
    if parts and not out.halves and declared.id == str(parts[1]):
        _lose_order(out, declared)
        return parts[0], parts[1]
    number = number_of(declared.id, UINT64)
    # Such a position is the place of the transaction, and then one inside it: records have only the former.
    inside = bool(parts) and (parts[1] == declared.order or declared.id == str(parts[0]))
    if number is None or (parts and not inside):
        out.lose("transaction", f"the id {declared.id!r} is not the txId of a position, which names the transaction")
        number = None
    _lose_order(out, declared)
    if parts and not (out.halves and inside):
        out.lose("position", _ONE_PAIR)
    step = parts[0] if inside else out.progress.ordinal
    return step, step if number is None else number


def _lose_order(out: Outgoing, declared: Transaction) -> None:
    if declared.order is not None or declared.total is not None:
        out.lose("transaction", _NO_ORDER)
