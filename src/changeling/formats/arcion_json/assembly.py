"""What all of Arcion's dialects have in common once a record is taken apart: images, key and cursor give a change."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from changeling.envelope.cells import Cell, Cells, Members, Names
from changeling.envelope.reading import ChangeCells
from changeling.formats.arcion_json import cursor as cursors
from changeling.formats.arcion_json import images
from changeling.formats.arcion_json.envelope import LETTERS, NULL_CELL, OPERATIONS
from changeling.formats.options import ReadOptions
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName


class Table(NamedTuple):
    """What the user says about a table."""

    name: TableName | None
    schema: str | None
    key: tuple[str, ...]
    columns: frozenset[str]
    """All of them, where they are known."""


def known(options: ReadOptions, name: TableName | None) -> Table:
    """What the options say about a table."""
    schema = options.schema_of(name)
    columns = frozenset() if schema is None else frozenset(column.name for column in schema.columns)
    return Table(name, None if schema is None else schema.to_json(), options.key_of(name), columns)


def table_of_topic(options: ReadOptions, topic: str | None) -> TableName | None:
    """The table of a record that names none: the user's, or that of the topic."""
    return options.table if options.table is not None or topic is None else TableName(None, None, topic)


class RecordPlan(NamedTuple):
    """What is known of records before their images are looked at."""

    table: Table
    raw_table: bytes
    exists: images.Presence | None = None


class Shown(NamedTuple):
    """The images of a record, as their columns; None where they show none."""

    before: Members | None
    after: Members | None
    before_image: Image
    after_image: Image
    columns: Sequence[str]
    usual: Cell
    """The record need not be kept as it was."""


Look = Callable[[Cells, RecordPlan, Operation, Members | None, Members | None], Shown]


class _Kind(NamedTuple):
    """What records have in common, and what the cursors that we wrote say of them."""

    plan: RecordPlan
    op: Operation
    ours: bool
    """We wrote them."""
    noted_op: Operation | None
    key: tuple[str, ...]
    values: tuple[str | None, ...] | None
    """Those of the key columns, where the images would give others."""
    before_image: Image | None
    after_image: Image | None


def change_of(
    cells: Cells, plan: Cell, letter: Cell, raw_cursor: Cell, look: Look, sides: Sequence[Cell], names: Names = ()
) -> tuple[ChangeCells, Cell]:
    """The change of a record whose images and cursor are these, and whether it is as usual; rejects what contradicts itself.

    The sides are two objects, or the values of all columns before the change, then those after it: `names` are theirs.
    """
    cursor = cursors.read(cells, raw_cursor)
    extras = cells.fields(cursor.changeling)
    ours = cells.is_set(cursor.changeling)
    kind = cells.each(_kind, plan, letter, ours, extras.op, extras.key, extras.before_image, extras.after_image)
    make = functools.partial(_row, look, names)
    key, before, after, before_image, after_image, usual = cells.by_value(make, kind, *sides)
    op = cells.each(_operation, kind)
    declared = cells.fields(extras.transaction)
    change = ChangeCells(
        op=op,
        table=cells.each(_name, plan),
        key=key,
        before=before,
        after=after,
        before_image=before_image,
        after_image=after_image,
        position=cursors.position(cells, cursor),
        commit_time=cursors.commit_time(cells, cursor, extras.time_ns),
        transaction=cells.transaction(declared.id, declared.order, declared.total, declared.complete),
        schema=cells.each(_schema, plan),
    )
    return change, usual


def _kind(
    plan: RecordPlan,
    letter: str,
    ours: bool,
    noted_op: Operation | None,
    key: tuple[str, ...] | dict[str, str | None] | None,
    *images: Image | None,
) -> _Kind:
    op = OPERATIONS.get(letter)
    if op is None:
        raise Rejected(f"unknown opType {letter!r}: Arcion has I, U and D")
    if noted_op is not None and LETTERS.get(noted_op) != letter:
        raise Rejected(f"the cursor says {noted_op}, which is not written as opType {letter!r}")
    values = tuple(key.values()) if isinstance(key, dict) else None
    return _Kind(plan, op, ours, noted_op, tuple(key or ()), values, *images)


def _operation(kind: _Kind) -> Operation:
    return kind.noted_op or kind.op


def _name(plan: RecordPlan) -> TableName | None:
    return plan.table.name


def _schema(plan: RecordPlan) -> str | None:
    return plan.table.schema


def _row(look: Look, columns: Names, cells: Cells, kind: _Kind, *sides: Cell) -> Sequence[Cell]:
    def made(part: Cells, old: Members | None, new: Members | None) -> Sequence[Cell]:
        shown = look(part, kind.plan, kind.op, old, new)
        names = kind.plan.table.key
        before_image, after_image = shown.before_image, shown.after_image
        before, after = (None if image is None else part.shell(image) for image in (shown.before, shown.after))
        key = key_of(part, names, shown.before, shown.after)
        if kind.ours:
            if key is None and kind.values is not None:
                key = part.key({name: quote(value) for name, value in zip(kind.key, kind.values, strict=True)})
            elif key is None:
                key = key_of(part, kind.key, shown.before, shown.after)
            before_image = images.before_image(shown.before or (), shown.columns, kind.key or names)
            before_image, before = _declared(kind.before_image, before_image, before)
            after_image, after = _declared(kind.after_image, after_image, after)
        return key, before, after, before_image, after_image, shown.usual

    if not columns:
        return cells.by_members(made, sides)
    before, after = sides[: len(columns)], sides[len(columns) :]
    return made(cells, *(dict(zip(columns, side, strict=True)) for side in (before, after)))


def key_of(cells: Cells, names: Sequence[str], before: Members | None, after: Members | None) -> Cell:
    """The canonical key from the cells that show it, those after the change first; None where its columns are not known."""
    shown = {**(before or {}), **(after or {})}
    for name in names:
        if name not in shown:
            cells.refuse(f"the record lacks key column {name!r}: no image shows it")
    return cells.key({name: shown[name] for name in names}) if names else None


def _declared(declared: Image | None, seen: Image, text: Cell) -> tuple[Image, Cell]:
    if declared is None:
        return seen, text
    return declared, None if declared is Image.NONE else b"{}" if text is None else text


def without_nulls(cells: Cells, columns: Members) -> Members | None:
    """An image of these columns: the text `null` is NULL; None where there are none."""
    return {name: cells.where(cells.equal(value, NULL_CELL), b"null", value) for name, value in columns.items()} or None
