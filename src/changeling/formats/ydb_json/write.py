"""Changes into changefeed records, in the shape that they had, or in that of a mode."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from changeling.envelope.cells import Cell, Cells, Condition, Members
from changeling.envelope.rows import ImageColumns, by_rows
from changeling.envelope.scalar_cells import SCALARS
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats.changefeed import UINT64_END, ChangefeedWrite, Mode
from changeling.formats.format import Outgoing
from changeling.formats.key_changes import rows_to_write
from changeling.formats.time_counts import MILLI
from changeling.formats.ydb_json.read import FLAGS, MEMBERS
from changeling.formats.ydb_json.schema import print_schema
from changeling.model.operation import NEW_ROW_OPERATIONS, ROW_OPERATIONS, Image, Operation
from changeling.model.table import schema_from_json

_pair = msgspec.json.Decoder(tuple[int, int]).decode
_names = msgspec.json.Decoder(tuple[str, ...]).decode
_FLAG_OF = {operation: flag for flag, operation in FLAGS.items()}


class YdbJsonWrite(ChangefeedWrite, frozen=True, kw_only=True):
    """Options of a writer of YDB's changefeeds."""

    reset: bool | None = None
    """Write a replace as `reset`, or as an `update` that names every column: the default where these are known."""
    virtual_timestamps: bool | None = None
    """Write `ts`: always (a change without is a loss), never, or where the change has one."""


def writer(options: YdbJsonWrite) -> Writer:
    """A function from a change to its records."""
    mode = Mode.named(options.mode)

    def write(cells: Cells, out: Cell) -> list[RecordCells]:
        change = out.change
        topic = cells.each(options.topic_of, change.table)
        if not cells.usually(cells.one_of(change.op, ROW_OPERATIONS)):
            return [_without_row(out)._replace(topic=topic)]
        shell = _shell(cells, out) if out.native else {}
        stamp = _as_spelled(cells, shell, "ts", _virtual_timestamp(cells, out, options.virtual_timestamps))
        spelled_out = cells.equal(change.op, Operation.REPLACE) & cells.mask(options.reset is not True)
        if options.reset is None:
            spelled_out &= cells.present(change.schema)
        if out.native and mode is None and cells.usually(~spelled_out):
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


def _shell(cells: Cells, out: Cell) -> Members:
    """The members that the record had, each null where the change contains its value."""
    change = out.change
    names = cells.each(_usual_members, change.op, change.after_image, cells.present(change.before))
    return kept(cells, out) or dict.fromkeys(cells.common(names), b"null")


def _usual_members(op: Operation, after_image: Image, has_before: bool) -> tuple[str, ...]:
    """The members of a plain record."""
    flag = _FLAG_OF.get(op, "update")
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
    shown = b"{}" if "newImage" in shell else columns
    for flag in FLAGS.keys() & shell.keys():
        # Columns next to a newImage are in the shell.
        own[flag] = cells.where(cells.equal(shell[flag], b"null"), shown, shell[flag])
    return cells.json_object({name: own.get(name, text) for name, text in shell.items()})


def _in_mode(cells: Cells, content: "Shown", shell: Members, key: Cell, stamp: Cell) -> Cell:
    front = cells.joined(b'{"key":', key, b',"', content.flag, b'":', content.columns)
    rest = {"newImage": content.new_image, "oldImage": content.old_image, "ts": stamp}
    rest |= {name: text for name, text in shell.items() if name not in MEMBERS}
    return cells.with_front(front, cells.first(cells.sparse(rest), b"{}"))


class Shown(NamedTuple):
    """A record's flag with its columns, and its images where it has them."""

    flag: Cell
    columns: Cell = b"{}"
    new_image: Cell = None
    old_image: Cell = None


def shown(cells: Cells, out: Cell, mode: Mode | None, reset: bool) -> Shown:
    """The columns of a row's record; a mode that needs what the change lacks is a loss."""
    change = out.change
    deleted, replaced = (cells.equal(change.op, op) for op in (Operation.DELETE, Operation.REPLACE))
    resets, new = replaced & cells.mask(reset), cells.one_of(change.op, NEW_ROW_OPERATIONS)
    full = cells.equal(change.after_image, Image.FULL)
    partial = cells.equal(change.after_image, Image.PARTIAL)
    before = _columns(cells, change.before, change.key, cells.equal(change.before_image, Image.FULL))
    after = _columns(cells, change.after, change.key, (full | partial) & ~deleted)
    there = cells.present(after)
    # A replace that is written as an update names those columns that become NULL.
    named = replaced & ~resets & there
    compared = full & cells.present(before) & ~new & ~resets & there
    if mode is Mode.UPDATES:
        named |= full & ~new & ~compared & ~resets & there
    if cells.any(named):
        after = cells.where(named, by_rows(cells, change, _with_nulls)[0], after)
    flag = cells.where(deleted, b"erase", cells.where(resets, b"reset", b"update"))
    if mode is Mode.UPDATES:
        cells.lose(out, ~deleted & ~there, "after", _NOTHING_CHANGED)
        unknown = replaced & ~resets & ~compared & there & ~cells.present(change.schema)
        cells.lose(out, unknown, "replace", _UNKNOWN_NULLS)
        if cells.any(compared):
            after = cells.where(compared, _changed(cells, before, after), after)
        return Shown(flag, cells.first(after, b"{}"))
    whole = there & (full | replaced)
    if mode is None:
        partial = cells.equal(change.before_image, Image.PARTIAL)
        cells.lose(out, partial, "before", "an oldImage is the full row, and this change has only part of it")
        whole &= ~resets
        columns = cells.first(cells.where(whole, None, after), b"{}")
        return Shown(flag, columns, cells.where(whole, after, None), before)
    if mode.has_old_image:
        why = f"the mode {mode} shows the row before the change, and this change does not have it"
        cells.lose(out, ~cells.present(before) & ~new, "before", why)
    if mode.has_new_image:
        why = f"the mode {mode} shows the full row, and this change has only part of it"
        cells.lose(out, ~deleted & ~whole, "after", why)
    new_image = cells.where(whole, after, None) if mode.has_new_image else None
    return Shown(flag, new_image=new_image, old_image=before if mode.has_old_image else None)


_NOTHING_CHANGED = "the mode UPDATES shows the changed columns, and this change has none"
_UNKNOWN_NULLS = "without a schema it is not known which columns become NULL; write with reset=true"


def _columns(cells: Cells, image: Cell, key: Cell, there: Condition) -> Cell:
    """The columns of an image without those of the key."""
    return cells.where(there, cells.first(cells.without_key(image, key), b"{}"), None)


def _with_nulls(cells: Cells, row: ImageColumns) -> Sequence[Cell]:
    """Full rows without their keys, with their NULLs named, as far as a schema names their columns."""
    schema, columns = row.kind.schema, dict(row.after or {})
    for column in () if schema is None else schema_from_json(schema).columns:
        columns.setdefault(column.name, b"null")
    return [cells.json_object({name: value for name, value in columns.items() if name not in (row.key or ())})]


def _changed(cells: Cells, before: Cell, after: Cell) -> Cell:
    """The columns of a row after a change that are others than before."""

    def made(part: Cells, before: Members | None, after: Members | None) -> Sequence[Cell]:
        was, found = before or {}, {**dict.fromkeys(before or {}, b"null"), **(after or {})}
        same = {name: part.equal(value, was.get(name, b"null")) for name, value in found.items()}
        return [part.first(part.sparse({name: part.where(same[name], None, found[name]) for name in found}), b"{}")]

    return cells.by_shape(made, (before, after))[0]


def _own_stamp(cells: Cells, out: Cell) -> tuple[Condition, Cell, Cell]:
    """Where the position is a step and a txId, and these. The step is the commit time in milliseconds, if there is one.

    A change of another dialect must have that time.
    """
    time = out.change.commit_time
    step, number = cells.components(out.change.position, 2)
    stamped = cells.all_present((step, number)) & cells.less(step, UINT64_END) & cells.less(number, UINT64_END)
    timed, millis = cells.present(time), cells.units(time, MILLI)
    in_time = timed & cells.equal(millis, step) & cells.equal(cells.time(millis, MILLI), time)
    stamped &= (in_time | ~timed) if out.native else (in_time & ~cells.mask(out.arrived))
    return stamped, step, number


def _print_stamp(cells: Cells, step: Cell, number: Cell) -> Cell:
    return cells.joined(b"[", cells.int_json(step), b",", cells.int_json(number), b"]")


def _as_spelled(cells: Cells, shell: Members, name: str, stamp: Cell) -> Cell:
    """The stamp in the spelling that its record had, where that was kept and says the same."""
    raw = shell.get(name, b"null")
    if stamp is None or cells.usually(cells.equal(raw, b"null")):
        return stamp
    return raw if _pair(raw) == _pair(stamp) else stamp


def _check_transaction(cells: Cells, out: Cell, stamped: Condition, number: Cell) -> None:
    """What a stamp does not say of the change's transaction is a loss."""
    declared = cells.fields(out.change.transaction)
    stamped = stamped & cells.present(declared.id)
    own = cells.equal(declared.id, cells.int_json(number))
    another = stamped & ~own
    cells.lose(out, another, "transaction", lambda: f"the id {declared.id!r} is not the txId {number} of the position")
    lose_order(cells, out, stamped & own)


def lose_order(cells: Cells, out: Cell, where: Condition) -> None:
    """The order that a change has inside its transaction, or over all, is a loss."""
    declared = cells.fields(out.change.transaction)
    ordered = cells.present(declared.order) | cells.present(declared.total)
    why = "a record has the transaction's id, but no order inside it or over all"
    cells.lose(out, where & ordered, "transaction", why)


def _virtual_timestamp(cells: Cells, out: Cell, wanted: bool | None) -> Cell:
    """The stamp to write, or None; what cannot be written without one is a loss, unless none was requested."""
    if wanted is False:
        return None
    stamped, step, number = _own_stamp(cells, out)
    together = cells.present(out.change.transaction)
    if out.native:
        # A record with `ts` has a transaction, also where the stamp happens to equal its place of arrival.
        stamped &= together
    # What distinguishes halves is not a txId.
    stamped &= cells.mask(cells.is_columnar or not out.halves)
    _check_transaction(cells, out, stamped, number)
    arrived = cells.mask(out.arrived)
    if not out.native:
        timed = cells.present(out.change.commit_time)
        cells.lose(out, ~stamped & ~arrived, "position", f"{_ANOTHER} position")
        cells.lose(out, ~stamped & timed, "commit_time", f"{_ANOTHER} time or no such position")
        why = "a record's transaction is the txId of `ts`, which this change does not have"
        cells.lose(out, ~stamped & together, "transaction", why)
    if wanted:
        why = "`ts` was requested, and the source of this change gave it no position"
        cells.lose(out, ~stamped & (arrived | cells.mask(out.native)), "position", why)
    return cells.where(stamped, _print_stamp(cells, step, number), None)


_ANOTHER = (
    "a record orders by [step, txId], the step being the commit time in milliseconds; this change has a different"
)


def _without_row(out: Outgoing) -> RecordCells:
    """A barrier, a schema record, or a tombstone."""
    change, shell = out.change, kept(SCALARS, out)
    if change.op not in (Operation.BARRIER, Operation.DDL):
        return RecordCells(None, None if change.key is None else _key_array(SCALARS, out, shell))
    stamped, step, number = _own_stamp(SCALARS, out)
    if change.op is Operation.BARRIER:
        why = (
            "`resolved` is [step, txId], the step being the time in milliseconds, and this position is not such a pair"
        )
        SCALARS.lose(out, ~stamped, "barrier", why)
        stamp = _as_spelled(SCALARS, shell, "resolved", _print_stamp(SCALARS, step, number))
        return RecordCells(SCALARS.json_object({**shell, "resolved": stamp}))
    SCALARS.lose(out, ~stamped, "ddl", "a schema record must have `ts`, and this change has no position [step, txId]")
    schema = out.schema
    if not shell and schema is not None and schema.columns and schema.key:
        shell = {"tableChanges": print_schema(schema, out.native)}
    SCALARS.lose(out, not shell, "ddl", "a schema record contains columns and key, and this change has no such schema")
    _check_transaction(SCALARS, out, stamped, number)
    stamp = _as_spelled(SCALARS, shell, "ts", _print_stamp(SCALARS, step, number))
    return RecordCells(SCALARS.json_object({**shell, "ts": stamp}))
