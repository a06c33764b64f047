"""Which rows a change is written as: one full row for each side that it shows, with the key columns in it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.rows import Row, by_rows
from changeling.model.operation import Image, Operation
from changeling.model.table import schema_from_json


class Sides(NamedTuple):
    """The rows of a change on its way out, as objects; None where it has no such row."""

    before: Cell
    after: Cell
    old_key: Cell
    """The key that the row before has."""
    others: Sequence[Cell]
    """What else the dialect makes of them."""


Look = Callable[[Cells, Row], Sequence[Cell]]
"""What else a dialect makes of the columns of the rows to be written: a row of key columns is of that size."""


def sides(cells: Cells, out: Cell, look: Look = lambda cells, row: ()) -> Sides:
    """The rows to write; a delete that has neither row nor key is a loss."""
    change, native = out.change, out.native
    nameless = cells.equal(change.op, Operation.DELETE) & ~cells.present(change.before) & ~cells.present(change.key)
    if not native:
        cells.lose(out, nameless, "delete", "it has neither the row nor its key")

    def made(part: Cells, row: Row, key: Cell) -> Sequence[Cell]:
        kind = row.kind
        old_key = _key_on(part, row.before or {}, row.key)
        before, after, worth = row.before, row.after, b""
        if not native:
            if kind.op is Operation.DELETE and before is None:
                before, after = row.key or {}, None
                kind = kind._replace(before_image=Image.KEY)
            elif kind.op in (Operation.READ, Operation.INSERT):
                before = None
            elif before is not None and kind.before_image is not Image.FULL and kind.op is not Operation.DELETE:
                # A partial row before is worth a record only if the update changes the key of its row.
                worth = part.where(part.equal(old_key, key), None, b"")
            before = None if before is None else _filled(before, kind.before_image, row)
            after = None if kind.op is Operation.DELETE else _filled(after or {}, kind.after_image, row)
        old = None if before is None else part.joined(worth, part.shell(before))
        new = None if after is None else part.shell(after)
        return old, new, old_key, *look(part, row._replace(kind=kind, before=before, after=after))

    before, after, old_key, *others = by_rows(cells, change, made, change.key)
    if native:
        # As they were, whatever blanks are in them.
        before, after = change.before, change.after
    return Sides(before, after, old_key, others)


def _filled(columns: Members, size: Image, row: Row) -> Members:
    """The row with its key columns, and a full one with all columns of its schema, in their order."""
    whole = {**columns, **{name: value for name, value in (row.key or {}).items() if name not in columns}}
    if size is not Image.FULL or row.kind.schema is None:
        return whole
    known = [column.name for column in schema_from_json(row.kind.schema).columns]
    return {**{name: whole.get(name, b"null") for name in known}, **whole}


def _key_on(cells: Cells, row: Members, key: Members | None) -> Cell:
    return None if key is None else cells.key({name: row.get(name, value) for name, value in key.items()})
