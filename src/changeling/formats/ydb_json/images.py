"""Which columns a record shows: what each mode requires, and what a change must have for it."""

from dataclasses import dataclass, field
from typing import NamedTuple

from changeling.envelope.cells import Cell, Cells
from changeling.formats.format import Outgoing
from changeling.formats.ydb_json.envelope import Mode
from changeling.model import json_text
from changeling.model.operation import Image, Operation

Columns = dict[str, bytes]
_NEW_ROWS = (Operation.INSERT, Operation.READ)


class Shown(NamedTuple):
    """A record's flag with its columns, and its images where it has them."""

    flag: Cell
    columns: Cell = b"{}"
    new_image: Cell = None
    old_image: Cell = None


def shown(cells: Cells, out: Cell, mode: Mode | None, reset: bool) -> Shown:
    """The columns of a row's record; a mode that needs what the change lacks is a loss."""
    change = out.change
    deleted = cells.equal(change.op, Operation.DELETE)
    before, after = (cells.equal(image, Image.FULL) for image in (change.before_image, change.after_image))
    usual = (after | deleted) & ~cells.equal(change.op, Operation.REPLACE)
    usual &= ~cells.equal(change.before_image, Image.PARTIAL)
    if mode is None and cells.only(usual):
        return Shown(
            flag=cells.where(deleted, b"erase", b"update"),
            new_image=cells.where(after & ~deleted, cells.without_key(change.after, change.key), None),
            old_image=cells.where(before, cells.without_key(change.before, change.key), None),
        )
    cells.alone()
    made = _written(out, mode, reset)
    new, old = (None if image is None else json_text.join(image.items()) for image in (made.new_image, made.old_image))
    return Shown(made.flag.encode(), json_text.join(made.columns.items()), new, old)


@dataclass
class _Written:
    flag: str
    columns: Columns = field(default_factory=dict)
    new_image: Columns | None = None
    old_image: Columns | None = None


def _written(out: Outgoing, mode: Mode | None, reset: bool) -> _Written:
    change = out.change
    before = _without_key(out, change.before) if change.before_image is Image.FULL else None
    if change.op is Operation.DELETE:
        return _Written("erase", old_image=_old_image(out, mode, before))
    made = _Written("reset" if reset and change.op is Operation.REPLACE else "update")
    after = _after(out, made.flag)
    made.old_image = _old_image(out, mode, before)
    whole = change.after_image is Image.FULL or change.op is Operation.REPLACE
    if mode is Mode.UPDATES:
        made.columns = _updates(out, made.flag, before, after)
    elif mode is None and after is not None:
        if made.flag == "update" and whole:
            made.new_image = after
        else:
            made.columns = after
    elif mode is not None and mode.has_new_image:
        if after is not None and whole:
            made.new_image = after
        else:
            out.lose("after", f"the mode {mode} shows the full row, and this change has only part of it")
    return made


def _without_key(out: Outgoing, image: str | bytes | None) -> Columns:
    key = json_text.members(out.change.key or b"{}")
    return {name: value for name, value in json_text.members(image or b"{}").items() if name not in key}


def _after(out: Outgoing, flag: str) -> Columns | None:
    """The columns after the change; a replace that is written as an update names those that become NULL."""
    change = out.change
    if change.after_image not in (Image.FULL, Image.PARTIAL):
        return None
    columns = _without_key(out, change.after)
    return _with_nulls(out, columns) if change.op is Operation.REPLACE and flag == "update" else columns


def _with_nulls(out: Outgoing, columns: Columns) -> Columns:
    """A full row with its NULLs named, as far as a schema names its columns."""
    key = json_text.members(out.change.key or b"{}")
    known = () if out.schema is None else out.schema.columns
    nulls = [column.name for column in known if column.name not in key and column.name not in columns]
    return {**columns, **dict.fromkeys(nulls, b"null")}


def _old_image(out: Outgoing, mode: Mode | None, before: Columns | None) -> Columns | None:
    change = out.change
    if mode is None:
        if change.before_image is Image.PARTIAL:
            out.lose("before", "an oldImage is the full row, and this change has only part of it")
        return before
    if not mode.has_old_image:
        return None
    if before is None and change.op not in _NEW_ROWS:
        out.lose("before", f"the mode {mode} shows the row before the change, and this change does not have it")
    return before


def _updates(out: Outgoing, flag: str, before: Columns | None, after: Columns | None) -> Columns:
    """The columns of UPDATES: the changed ones where both rows are known, else all that the change has."""
    change = out.change
    if after is None:
        out.lose("after", "the mode UPDATES shows the changed columns, and this change has none")
        return {}
    if flag == "reset" or change.op in _NEW_ROWS:
        return after
    if change.after_image is Image.FULL and before is not None:
        named = {**dict.fromkeys(before, b"null"), **after}
        return {name: value for name, value in named.items() if value != before.get(name, b"null")}
    if change.op is Operation.REPLACE and out.schema is None:
        out.lose("replace", "without a schema it is not known which columns become NULL; write with reset=true")
    return _with_nulls(out, after) if change.after_image is Image.FULL else after
