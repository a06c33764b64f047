"""Changes into changefeed records, in the shape that they had, or in that of a mode."""

import functools

import msgspec

from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.one import ONE
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats.format import Outgoing
from changeling.formats.key_changes import rows_to_write
from changeling.formats.ydb_json.envelope import MEMBERS, UINT64, Mode, print_stamp, stamp_of
from changeling.formats.ydb_json.images import Shown, shown
from changeling.formats.ydb_json.table_changes import print_schema
from changeling.formats.ydb_json.topic import ChangefeedWrite, topic_of
from changeling.model import json_text
from changeling.model.operation import ROW_OPERATIONS, Image, Operation
from changeling.model.table import schema_from_json

_MILLISECOND = 1_000_000
_names = msgspec.json.Decoder(tuple[str, ...]).decode


class YdbJsonWrite(ChangefeedWrite, frozen=True, kw_only=True):
    """Options of a writer of YDB's changefeeds."""

    reset: bool | None = None
    """Write a replace as `reset`, or as an `update` that names every column: the default where these are known."""
    virtual_timestamps: bool | None = None
    """Write `ts`: always (a change without is a loss), never, or where the change has one."""


def writer(options: YdbJsonWrite) -> Writer:
    """A function from a change to its records."""
    mode = Mode.named(options.mode)
    topic_of_table = functools.partial(topic_of, feed=options.feed or "feed")

    def write(cells: Cells, out: Cell) -> list[RecordCells]:
        change = out.change
        topic = cells.each(topic_of_table, change.table)
        if not cells.only(cells.one_of(change.op, ROW_OPERATIONS)):
            return [RecordCells(value, key, topic) for value, key in _without_row(out)]
        shell = _shell(cells, out) if out.native else {}
        stamp = _virtual_timestamp(cells, out, options.virtual_timestamps)
        spelled_out = cells.equal(change.op, Operation.REPLACE) & cells.mask(options.reset is not True)
        if options.reset is None:
            spelled_out &= cells.present(change.schema)
        if out.native and mode is None and cells.only(~spelled_out):
            key = _key_array(cells, out, shell)
            return [RecordCells(_original_value(cells, change, shell, key, stamp), key, topic)]
        records = []
        for row in rows_to_write(cells, out, apart=True):
            out.change = row
            key = _key_array(cells, out, shell)
            own_mode = Mode.UPDATES if out.native and mode is None and "newImage" not in shell else mode
            content = shown(cells, out, own_mode, bool(options.reset))
            records.append(RecordCells(_in_mode(cells, content, shell, key, stamp), key, topic))
        return records

    return write


def _without_row(out: Outgoing) -> list[tuple[bytes | None, bytes | None]]:
    change = out.change
    if change.op is Operation.BARRIER:
        return [(value, None) for value in _barrier(out)]
    if change.op is Operation.DDL:
        return [(value, None) for value in _schema_change(out)]
    return [(None, None if change.key is None else _key_array(ONE, out, kept(ONE, out)))]


def _shell(cells: Cells, out: Cell) -> Members:
    """The members that the record had, each null where the change contains its value."""
    change = out.change
    names = cells.each(_usual_members, change.op, change.after_image, cells.present(change.before))
    return kept(cells, out) or dict.fromkeys(cells.common(names), b"null")


def _usual_members(op: Operation, after_image: Image, has_before: bool) -> tuple[str, ...]:
    """The members of a plain record."""
    flag = {Operation.DELETE: "erase", Operation.REPLACE: "reset"}.get(op, "update")
    new = ("newImage",) if after_image == Image.FULL and flag == "update" else ()
    return ("key", flag, *new, *(("oldImage",) if has_before else ()), "ts")


def _key_array(cells: Cells, out: Cell, shell: Members) -> Cell:
    note = shell.get("key", b"null")
    if cells.branch(cells.starts(note, b"{")):
        return cells.array_of(cells.members(note).values())
    values = cells.members(out.change.key)
    if cells.branch(cells.starts(note, b"[")):
        names = cells.common(cells.each(_names, note))
    else:
        names = () if out.native else cells.common(cells.each(_key_of, out.change.schema))
    return cells.array_of([values[name] for name in (names if set(names) == values.keys() else values)])


def _key_of(schema: str | None) -> tuple[str, ...]:
    return () if schema is None else schema_from_json(schema).key


def _original_value(cells: Cells, change: Cell, shell: Members, key: Cell, stamp: Cell) -> Cell:
    columns = cells.first(change.after, b"{}")
    own = {"key": key, "newImage": columns, "oldImage": cells.first(change.before, b"{}"), "ts": stamp}
    flag = b"{}" if "newImage" in shell else columns
    for name, text in shell.items():
        if name not in own:
            own[name] = cells.where(cells.equal(text, b"null"), flag, text) if name in MEMBERS else text
    return cells.shell({name: own[name] for name in shell})


def _in_mode(cells: Cells, content: Shown, shell: Members, key: Cell, stamp: Cell) -> Cell:
    parts: list[Cell] = [b'{"key":', key, b',"', content.flag, b'":', content.columns]
    for name, text in (("newImage", content.new_image), ("oldImage", content.old_image), ("ts", stamp)):
        if cells.any(cells.present(text)):
            parts.append(cells.first(cells.joined(b"," + json_text.head(name), text), b""))
    for name, text in shell.items():
        if name not in MEMBERS:
            parts += [b"," + json_text.head(name), text]
    return cells.joined(*parts, b"}")


def _virtual_timestamp(cells: Cells, out: Cell, wanted: bool | None) -> Cell:
    """The stamp to write, or None; what cannot be written without one is a loss, unless none was requested.

    It is the change's position, whose first number is the time in milliseconds: a change of another dialect must have it.
    """
    if wanted is False:
        return None
    change, arrived = out.change, cells.mask(out.arrived)
    step, number = cells.components(change.position, 2)
    declared = cells.fields(change.transaction)
    together, timed = cells.present(declared.id), cells.present(change.commit_time)
    millis = cells.units(change.commit_time, _MILLISECOND)
    stamped = cells.all_present((step, number)) & cells.less(step, UINT64) & cells.less(number, UINT64)
    in_time = timed & cells.equal(millis, step) & cells.equal(cells.time(millis, _MILLISECOND), change.commit_time)
    # A record with `ts` has a transaction, also where the stamp happens to equal its place of arrival.
    stamped &= (together & (in_time | ~timed)) if out.native else (in_time & ~arrived)
    # What distinguishes halves is no txId.
    stamped &= cells.mask(cells.many or not out.halves)
    own = cells.equal(declared.id, cells.digits(number))
    cells.lose(
        out,
        stamped & together & ~own,
        "transaction",
        lambda: f"the id {declared.id!r} is not the txId {number} of the position",
    )
    inside = cells.present(declared.order) | cells.present(declared.total)
    cells.lose(out, stamped & together & own & inside, "transaction", _NO_ORDER)
    another = "a record orders by [step, txId], the step being the commit time in milliseconds; this change has another"
    if not out.native:
        cells.lose(out, ~stamped & ~arrived, "position", f"{another} position")
        cells.lose(out, ~stamped & timed, "commit_time", f"{another} time or no such position")
        cells.lose(
            out,
            ~stamped & together,
            "transaction",
            "a record's transaction is the txId of `ts`, which this change does not have",
        )
    if wanted:
        cells.lose(
            out,
            ~stamped & (arrived | cells.mask(out.native)),
            "position",
            "`ts` was requested, and the source of this change gave it no position",
        )
    return cells.where(stamped, cells.joined(b"[", cells.digits(step), b",", cells.digits(number), b"]"), None)


_NO_ORDER = "a record has the transaction's id, but no order inside it or over all"


def _own_stamp(out: Outgoing) -> tuple[int, int] | None:
    """The change's position as a stamp; the step is a time too, which a change of another dialect must have."""
    if not out.native and (out.arrived or out.change.commit_time is None):
        return None
    return stamp_of(out.change)


def _check_transaction(out: Outgoing, stamp: tuple[int, int]) -> None:
    transaction = out.change.transaction
    if transaction is None:
        return
    if transaction.id != str(stamp[1]):
        out.lose("transaction", f"the id {transaction.id!r} is not the txId {stamp[1]} of the position")
    elif transaction.order is not None or transaction.total is not None:
        out.lose("transaction", _NO_ORDER)


def _barrier(out: Outgoing) -> list[bytes]:
    stamp = _own_stamp(out)
    if stamp is None:
        out.lose("barrier", "`resolved` is [step, txId], the step being the time in milliseconds; this one is another")
        return []
    shell = kept(ONE, out) or {"resolved": b"null"}
    return [json_text.join((name, print_stamp(stamp) if name == "resolved" else text) for name, text in shell.items())]


def _schema_change(out: Outgoing) -> list[bytes]:
    stamp = _own_stamp(out)
    if stamp is None:
        out.lose("ddl", "a schema record must have `ts`, and this change has no position [step, txId]")
        return []
    shell = kept(ONE, out)
    if not shell:
        if out.schema is None or not out.schema.columns or not out.schema.key:
            out.lose("ddl", "a schema record contains columns and key, and this change has no such schema")
            return []
        shell = {"tableChanges": print_schema(out.schema, out.native), "ts": b"null"}
    _check_transaction(out, stamp)
    return [json_text.join((name, print_stamp(stamp) if name == "ts" else text) for name, text in shell.items())]
