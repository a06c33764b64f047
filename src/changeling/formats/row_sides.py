"""The sides of a row, before and after: which of them a change is written as, where a record shows one full row."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.rows import ImageColumns, by_rows
from changeling.model.operation import NEW_ROW_OPERATIONS, Image, Operation
from changeling.model.table import schema_from_json


class Sides(NamedTuple):
    """The rows of a change on its way out, as objects; None where it has no such row."""

    before: Cell
    after: Cell
    old_key: Cell
    """The key that the row before has."""
    others: Sequence[Cell]
    """What else the dialect makes of them."""


Look = Callable[[Cells, ImageColumns], tuple[ImageColumns, Sequence[Cell]]]
"""The columns of rows as a dialect writes them, and any extra cells; a row with only key columns has image `key`."""


def sides(cells: Cells, out: Cell, look: Look) -> Sides:
    """The rows to write, one for each side that a change shows; a delete that has neither row nor key is a loss."""
    change, native = out.change, out.native
    if not native:
        nameless = cells.equal(change.op, Operation.DELETE) & ~cells.present(change.before) & ~cells.present(change.key)
        cells.lose(out, nameless, "delete", "it has neither the row nor its key")

    def made(part: Cells, row: ImageColumns, key: Cell) -> Sequence[Cell]:
        shown, others = look(part, row if native else _shown(row))
        old_key = None
        if row.key is not None:
            old = row.before or {}
            old_key = part.key({name: old.get(name, value) for name, value in row.key.items()})
        if native:
            # As they were, whatever blanks are in them.
            return None, None, old_key, *others
        before, after = (None if image is None else part.json_object(image) for image in (shown.before, shown.after))
        if before is not None and row.kind.op is not Operation.DELETE and row.kind.before_image is not Image.FULL:
            # A partial row before is worth a record only if the update changes the key of its row.
            before = part.where(part.equal(old_key, key), None, before)
        return before, after, old_key, *others

    before, after, old_key, *others = by_rows(cells, change, made, change.key)
    return Sides(change.before if native else before, change.after if native else after, old_key, others)


def _shown(row: ImageColumns) -> ImageColumns:
    """The sides that are written of a row of another dialect, with the columns of its key in them."""
    kind, before, after = row.kind, row.before, row.after
    if kind.op is Operation.DELETE:
        after = None
        if before is None:
            kind, before = kind._replace(before_image=Image.KEY), {}
    else:
        before, after = None if kind.op in NEW_ROW_OPERATIONS else before, after or {}
    known = [] if kind.schema is None else [column.name for column in schema_from_json(kind.schema).columns]

    def whole(columns: Members | None, size: Image) -> Members | None:
        if columns is None:
            return None
        found = {**columns, **{name: value for name, value in (row.key or {}).items() if name not in columns}}
        return {**{name: found.get(name, b"null") for name in known}, **found} if size is Image.FULL else found

    return ImageColumns(kind, row.key, whole(before, kind.before_image), whole(after, kind.after_image))
