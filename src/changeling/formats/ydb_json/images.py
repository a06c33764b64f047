"""Which columns a record shows: what each mode requires, and what a change must have for it."""

from collections.abc import Sequence
from typing import NamedTuple

from changeling.envelope.cells import Cell, Cells, Condition, Members
from changeling.formats.ydb_json.envelope import Mode
from changeling.model.operation import Image, Operation
from changeling.model.table import schema_from_json

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
    deleted, replaced = (cells.equal(change.op, op) for op in (Operation.DELETE, Operation.REPLACE))
    resets, new = replaced & cells.mask(reset), cells.one_of(change.op, _NEW_ROWS)
    full = cells.equal(change.after_image, Image.FULL)
    before = _columns(cells, change.before, change.key, cells.equal(change.before_image, Image.FULL))
    partial = cells.equal(change.after_image, Image.PARTIAL)
    after = _columns(cells, change.after, change.key, (full | partial) & ~deleted)
    there = cells.present(after)
    # A replace that is written as an update names those columns that become NULL.
    named = replaced & ~resets & there
    compared = full & cells.present(before) & ~new & ~resets & there
    if mode is Mode.UPDATES:
        named |= full & ~new & ~compared & ~resets & there
    if cells.any(named):
        after = cells.where(named, _with_nulls(cells, change, after), after)
    flag = cells.where(deleted, b"erase", cells.where(resets, b"reset", b"update"))
    old = None if mode is not None and not mode.has_old_image else before
    if mode is None:
        partial = cells.equal(change.before_image, Image.PARTIAL)
        cells.lose(out, partial, "before", "an oldImage is the full row, and this change has only part of it")
    elif mode.has_old_image:
        why = f"the mode {mode} shows the row before the change, and this change does not have it"
        cells.lose(out, ~cells.present(old) & ~new, "before", why)
    whole = there & (full | replaced)
    if mode is None:
        whole &= ~resets
        return Shown(flag, cells.first(cells.where(whole, None, after), b"{}"), cells.where(whole, after, None), old)
    if mode is Mode.UPDATES:
        cells.lose(out, ~deleted & ~there, "after", _NOTHING_CHANGED)
        unknown = replaced & ~resets & ~compared & there & ~cells.present(change.schema)
        cells.lose(out, unknown, "replace", _UNKNOWN_NULLS)
        if cells.any(compared):
            after = cells.where(compared, _changed(cells, before, after), after)
        return Shown(flag, cells.first(after, b"{}"))
    if mode.has_new_image:
        why = f"the mode {mode} shows the full row, and this change has only part of it"
        cells.lose(out, ~deleted & ~whole, "after", why)
        return Shown(flag, new_image=cells.where(whole, after, None), old_image=old)
    return Shown(flag, old_image=old)


_NOTHING_CHANGED = "the mode UPDATES shows the changed columns, and this change has none"
_UNKNOWN_NULLS = "without a schema it is not known which columns become NULL; write with reset=true"


def _columns(cells: Cells, image: Cell, key: Cell, there: Condition) -> Cell:
    """The columns of an image without those of the key."""
    return cells.where(there, cells.first(cells.without_key(image, key), b"{}"), None)


def _with_nulls(cells: Cells, change: Cell, after: Cell) -> Cell:
    """Full rows with their NULLs named, as far as a schema names their columns."""

    def by_schema(part: Cells, schema: str | None, after: Cell, key: Cell) -> Sequence[Cell]:
        known = () if schema is None else [column.name for column in schema_from_json(schema).columns]

        def made(part: Cells, after: Members | None, key: Members | None) -> Sequence[Cell]:
            nulls = dict.fromkeys((name for name in known if name not in (key or ())), b"null")
            columns = after or {}
            return [part.shell({**columns, **{name: null for name, null in nulls.items() if name not in columns}})]

        return part.by_members(made, (after, key))

    return cells.by_value(by_schema, change.schema, after, change.key)[0]


def _changed(cells: Cells, before: Cell, after: Cell) -> Cell:
    """The columns of a row after a change that are others than before."""

    def made(part: Cells, before: Members | None, after: Members | None) -> Sequence[Cell]:
        was, found = before or {}, {**dict.fromkeys(before or {}, b"null"), **(after or {})}
        same = {name: part.equal(value, was.get(name, b"null")) for name, value in found.items()}
        return [part.first(part.sparse({name: part.where(same[name], None, found[name]) for name in found}), b"{}")]

    return cells.by_members(made, (before, after))[0]
