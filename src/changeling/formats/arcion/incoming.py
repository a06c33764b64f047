"""Records of Arcion into changes, whatever the dialect: two images, a letter and a cursor give a change."""

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from changeling.envelope.cells import Cell, Cells, Members, Names
from changeling.envelope.reading import ChangeCells
from changeling.formats.arcion import cursor as cursors
from changeling.formats.options import ReadOptions
from changeling.model import json_text
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

OPERATIONS = {"I": Operation.INSERT, "U": Operation.UPDATE, "D": Operation.DELETE}
LETTERS = {
    **{operation: letter for letter, operation in OPERATIONS.items()},
    **dict.fromkeys((Operation.READ, Operation.REPLACE), "I"),
    Operation.UPSERT: "U",
}
IN_AFTER, IN_BEFORE = 1, 2
NULL_CELL = b'"null"'
"""A cell of JSON that is NULL, and one that says nothing; `exists` distinguishes the two."""
LACKS = "the record lacks key column {!r}: no image shows it"
_exists = json_text.labelled("exists", msgspec.json.Decoder(dict[str, int | str]).decode)


class Presence(NamedTuple):
    """What `exists` says of all columns of a record."""

    columns: Names = ()
    before: Names = ()
    after: Names = ()
    """The columns that an image shows; the cells of the others say nothing."""
    as_text: bool = True
    """Every value is printed as text."""
    silent: bytes | None = None
    """An image whose cells all say nothing; None without columns."""

    @staticmethod
    def of(raw: bytes) -> "Presence":
        """Reads 0 to 3 for each column, as text or as a number; raises `Rejected` with the column that is wrong."""
        bits = _exists(raw)
        for name, value in bits.items():
            if str(value) not in ("0", "1", "2", "3"):
                raise Rejected(f"exists of column {name!r} is {value!r}: it must be 0, 1, 2 or 3")
        before = tuple(name for name, value in bits.items() if int(value) & IN_BEFORE)
        after = tuple(name for name, value in bits.items() if int(value) & IN_AFTER)
        as_text = not any(isinstance(value, int) for value in bits.values())
        silent = json_text.join((name, NULL_CELL) for name in bits) if bits else None
        return Presence(tuple(bits), before, after, as_text, silent)


class Plan(NamedTuple):
    """What is known of records before their images are looked at."""

    table: TableName | None
    schema: str | None
    key: Names
    columns: frozenset[str]
    """All of the table, where they are known."""
    presence: Presence = Presence()
    kept: bytes = b"{"
    """What `meta` begins with."""

    @staticmethod
    def of(options: ReadOptions, table: TableName | None) -> "Plan":
        """What the options say about a table."""
        columns = frozenset(options.columns_of(table))
        return Plan(table, options.schema_text(table), options.key_of(table), columns)


class Kind(NamedTuple):
    """What records have in common, and what the cursors that we wrote say of them."""

    plan: Plan
    op: Operation
    noted_key: Names | dict[str, str | None]
    """The key columns; with their values, where the images would give others."""
    before_image: Image | None
    after_image: Image | None

    @property
    def key(self) -> Collection[str]:
        """The key columns, as far as they are known."""
        return self.noted_key or self.plan.key


class Shown(NamedTuple):
    """The columns that both images show, and how complete they seem to be."""

    before: Members
    after: Members
    before_image: Image
    after_image: Image
    usual: Cell
    """The record need not be kept as it was."""


Look = Callable[[Cells, Kind, Members | None, Members | None], Shown]


def completeness(
    shown: Collection[str], columns: Collection[str], key: Collection[str] = (), smaller: Image = Image.PARTIAL
) -> Image:
    """How complete an image is: of those that are not full, `smaller` are those of the key, and all where no key is known."""
    if not shown:
        return Image.NONE
    if len(shown) >= len(columns) and set(shown) >= set(columns):
        return Image.FULL
    return smaller if not key or set(shown) == set(key) else Image.PARTIAL


def row_found(cells: Cells, plan: Plan, row: Members, meta: Cell = None) -> ChangeCells:
    """A row as a snapshot found it."""
    key, after = cells.key_of(plan.key, row, LACKS), cells.json_object(row)
    return ChangeCells(
        Operation.READ, plan.table, key, after=after, after_image=Image.FULL, meta=meta, schema=plan.schema
    )


def kind_of(cells: Cells, plan: Cell, letter: Cell, noted: Any) -> Cell:
    """The kind of a record; rejects a letter that is none, or that our cursor contradicts."""
    return cells.each(_kind, plan, letter, noted.op, noted.key, noted.before_image, noted.after_image)


def _kind(
    plan: Plan,
    letter: str,
    noted_op: Operation | None,
    noted_key: Names | dict[str, str | None] | None,
    *images: Image | None,
) -> Kind:
    if letter not in OPERATIONS:
        raise Rejected(f"unknown opType {letter!r}: Arcion has I, U and D")
    if noted_op is not None and LETTERS.get(noted_op) != letter:
        raise Rejected(f"the cursor says {noted_op}, which is not written as opType {letter!r}")
    return Kind(plan, noted_op or OPERATIONS[letter], () if noted_key is None else noted_key, *images)


def row_of(look: Look, kind: Kind, cells: Cells, old: Members | None, new: Members | None) -> Sequence[Cell]:
    """Of columns before and after a change the key, both images, how complete these are, and whether the record is as usual."""
    shown = look(cells, kind, old, new)
    if isinstance(kind.noted_key, dict) and not kind.plan.key:
        key = cells.key({name: quote(value) for name, value in kind.noted_key.items()})
    else:
        key = cells.key_of(kind.plan.key or tuple(kind.noted_key), {**shown.before, **shown.after}, LACKS)
    before_image, after_image = kind.before_image or shown.before_image, kind.after_image or shown.after_image
    before = None if before_image is Image.NONE else cells.json_object(shown.before)
    after = None if after_image is Image.NONE else cells.json_object(shown.after)
    return key, before, after, before_image, after_image, shown.usual


def change_of(cells: Cells, kind: Cell, cursor: Any, noted: Any, row: Sequence[Cell]) -> ChangeCells:
    """The change of a record: `row` is its key, both images, and how complete these are."""
    declared = cells.fields(noted.transaction)
    key, before, after, before_image, after_image = row
    return ChangeCells(
        op=cells.each(attrgetter("op"), kind),
        table=cells.each(attrgetter("plan.table"), kind),
        key=key,
        before=before,
        after=after,
        before_image=before_image,
        after_image=after_image,
        position=cursors.position(cells, cursor),
        commit_time=cursors.commit_time(cells, cursor, noted.time_ns),
        transaction=cells.transaction(declared.id, declared.order, declared.total, declared.complete),
        schema=cells.each(attrgetter("plan.schema"), kind),
    )


def by_presence(null: bytes, cells: Cells, kind: Kind, old: Members | None, new: Members | None) -> Shown:
    """The images by `exists`; usual cells are texts, and those that are NULL or say nothing `null`."""
    columns, in_before, in_after = kind.plan.presence[:3]
    usual, images = cells.mask(True), []
    for side, found, present in (("before", old, in_before), ("after", new, in_after)):
        given = found or {}
        for name in given:
            if name not in columns:
                cells.refuse(f"column {name!r} is in {side}, but not in exists")
        for name in present:
            if name not in given:
                cells.refuse(f"column {name!r} is missing from {side}, where exists says it is")
        usual &= cells.mask(found is not None and tuple(found) == columns)
        image = {}
        for name, value in given.items():
            is_null = cells.equal(value, null)
            if name not in present:
                usual &= is_null
                continue
            image[name] = cells.where(is_null, b"null", value)
            # Fields of CSV are always texts.
            if null == NULL_CELL:
                usual &= cells.starts(value, b'"')
        images.append(image)
    before, after = images
    if kind.op is Operation.DELETE and after:
        cells.refuse(f"a delete with {', '.join(after)} in after: exists may be 0 or 2 only")
    before_image = completeness(before, columns, kind.key, Image.KEY)
    return Shown(before, after, before_image, completeness(after, columns), usual)
