"""What rows of one form share: computed once for each table, list of columns and list of old columns."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from changeling.envelope.cells import Cell, Cells
from changeling.formats.transferia import schemas
from changeling.formats.transferia.envelope import ROW_KINDS
from changeling.formats.transferia.schemas import TablePlan
from changeling.model import json_text
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation

_list = msgspec.json.Decoder(list[str] | None).decode
_names, _old_names = json_text.named("columnnames", _list), json_text.named("oldkeys.keynames", _list)


class RowPlan(NamedTuple):
    """How to assemble the values of such a row."""

    table: TablePlan
    kind: str
    new_count: int
    old_count: int
    after: tuple[bytes, ...] | None
    """The text before each new value in the image; None: there is no row after the change."""
    after_image: Image
    before: tuple[bytes, ...] | None
    before_image: Image
    before_in_columns: bool
    """A delete without old keys: its row is in the new values."""
    key: tuple[tuple[str, bool, int], ...]
    """Each key column, whether its value is an old one, and which."""


def make(plan: TablePlan, kind: str, columns: bytes, old_columns: bytes) -> RowPlan:
    """The plan of rows of a kind with these lists of names; raises `Rejected` where they cannot be rows of the table."""
    new, old = _checked(_names(columns)), _checked(_old_names(old_columns))
    op = ROW_KINDS[kind]
    deleted = op is Operation.DELETE
    in_columns = deleted and not old and bool(new)
    before = new if in_columns else () if op is Operation.INSERT else old
    return RowPlan(
        table=plan,
        kind=kind,
        new_count=len(new),
        old_count=len(old),
        after=None if deleted else _heads(new),
        after_image=Image.NONE if deleted else schemas.after_image(kind, new, plan.columns),
        before=_heads(before) if before else None,
        before_image=schemas.before_image(before, plan.columns, plan.key),
        before_in_columns=in_columns,
        key=tuple(_source(name, () if deleted and not in_columns else new, old) for name in plan.key),
    )


def _checked(found: list[str] | None) -> list[str]:
    names = found or []
    if len(set(names)) < len(names):
        raise Rejected(f"a column is named twice: {', '.join(names)}")
    return names


def _heads(names: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(b"%b%b:" % (b"," if place else b"{", quote(name)) for place, name in enumerate(names))


def _source(name: str, new: Sequence[str], old: Sequence[str]) -> tuple[str, bool, int]:
    if name in new:
        return name, False, list(new).index(name)
    if name in old:
        return name, True, list(old).index(name)
    raise Rejected(f"the item lacks key column {name!r}: neither columnnames nor oldkeys names it")


def image(cells: Cells, heads: tuple[bytes, ...], values: Sequence[Cell]) -> Cell:
    """The text of an image."""
    return cells.joined(*chain.from_iterable(zip(heads, values, strict=True)), b"}") if heads else b"{}"


def key_of(cells: Cells, row: RowPlan, new: Sequence[Cell], old: Sequence[Cell]) -> Cell:
    """The canonical key."""
    columns = {name: (old if is_old else new)[place] for name, is_old, place in row.key}
    return cells.key(columns) if columns else None


def before_of(cells: Cells, row: RowPlan, new: Sequence[Cell], old: Sequence[Cell]) -> Cell:
    """The row before the change, or the part of it that an item has."""
    return None if row.before is None else image(cells, row.before, new if row.before_in_columns else old)


def after_of(cells: Cells, row: RowPlan, new: Sequence[Cell]) -> Cell:
    """The row after the change."""
    return None if row.after is None else image(cells, row.after, new)
