"""The rows of changes on their way out, as their columns: all changes of a part have the same ones."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from changeling.envelope.cells import Cell, Cells, Members
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

_KINDS = 64
"""How many kinds of rows a group may have, by operation, images, table and schema; changes of others leave it."""


class Kind(NamedTuple):
    """What rows of a part have in common."""

    op: Operation
    before_image: Image
    after_image: Image
    table: TableName | None
    schema: str | None


class ImageColumns(NamedTuple):
    """The columns of a row, as JSON; None where the change has no such image, or no key."""

    kind: Kind
    key: Members | None
    before: Members | None
    after: Members | None


def by_rows(cells: Cells, change: Any, function: Callable[..., Sequence[Cell]], *others: Cell) -> Sequence[Cell]:
    """Cells made in another way for each list of columns: by a function of `Cells`, the `ImageColumns`, and these cells of its records."""

    def with_kind(part: Cells, kind: Kind, key: Cell, before: Cell, after: Cell, *own: Cell) -> Sequence[Cell]:
        def with_members(
            part: Cells, key: Members | None, before: Members | None, after: Members | None, *own: Cell
        ) -> Sequence[Cell]:
            return function(part, ImageColumns(kind, key, before, after), *own)

        return part.by_shape(with_members, (key, before, after), *own)

    kind = cells.each(_kind, change.op, change.before_image, change.after_image, change.table, change.schema)
    cells.limit(kind, _KINDS)
    return cells.by_value(with_kind, kind, change.key, change.before, change.after, *others)


def _kind(op: str, before_image: str, after_image: str, table: TableName | None, schema: str | None) -> Kind:
    return Kind(Operation(op), Image(before_image), Image(after_image), table, schema)
