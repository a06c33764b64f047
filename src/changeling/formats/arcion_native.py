"""`arcion-native`: what Arcion writes to Kafka with `replication-format: NATIVE`, its records and the bare rows of a snapshot."""

from collections.abc import Collection, Set

from changeling.envelope.cells import Cells, Members
from changeling.envelope.reading import Reader
from changeling.envelope.writing import Writer
from changeling.formats import arcion
from changeling.formats.arcion import incoming
from changeling.formats.arcion.incoming import NULL_CELL, Kind, Shown
from changeling.formats.arcion_json import MEMBERS, Layout, reader_of, writer_of
from changeling.formats.capabilities import carrying
from changeling.formats.options import ReadOptions, WriteOptions
from changeling.model.operation import Image, Operation


class ArcionNativeRead(ReadOptions, frozen=True, kw_only=True):
    """NATIVE records leave no choice."""


class ArcionNativeWrite(WriteOptions, frozen=True, kw_only=True):
    """NATIVE records leave no choice."""


def reader(options: ArcionNativeRead) -> Reader:
    """A function from a record to its change."""
    return reader_of(NATIVE, options)


def writer(options: ArcionNativeWrite) -> Writer:
    """A function from a change to its record."""
    return writer_of(NATIVE)


def _look(cells: Cells, kind: Kind, old: Members | None, new: Members | None) -> Shown:
    """The images as they are; the text `null` is NULL, and unusual."""
    if kind.op is Operation.DELETE and new:
        cells.refuse(f"a delete with {', '.join(new)} in after: it must be null")
    odd, images = cells.mask(old == {} or new == {}), []
    for side in (old, new):
        image = {}
        for name, value in (side or {}).items():
            is_text = cells.equal(value, NULL_CELL)
            odd |= is_text
            image[name] = cells.where(is_text, b"null", value)
        images.append(image)
    before, after = images
    return Shown(before, after, *completeness(kind.op, set(before), set(after), kind.key, kind.plan.columns), ~odd)


def completeness(
    op: Operation, before: Set[str], after: Set[str], key: Collection[str], columns: Set[str]
) -> tuple[Image, Image]:
    """How complete `before` and `after` are, given the columns that they show: NATIVE records have no `exists`.

    `columns` are all of the table, empty where they are not known. An insert is always full. Without columns, a delete is
    full unless it shows only the key, and an update is full if both sides show the same columns and more than the key; else
    it has its key before, and what it changed after.
    """
    if columns:
        smaller = Image.FULL if op is Operation.INSERT else Image.PARTIAL
        of_before = incoming.completeness(before, columns, key, Image.KEY)
        return of_before, incoming.completeness(after, columns, (), smaller)
    is_key = before == set(key)
    of_before, of_after = Image.KEY if is_key else Image.FULL, Image.FULL
    if op is Operation.UPDATE and (is_key or not before or before != after):
        of_before, of_after = Image.KEY if is_key or not key else Image.FULL, Image.PARTIAL
    return of_before if before else Image.NONE, of_after if after else Image.NONE


NATIVE = Layout(MEMBERS[:5], b"null", NULL_CELL, "null_texts", _look)
FORMAT = arcion.dialect(
    name="arcion-native",
    summary="Arcion's NATIVE format for Kafka: full images of texts, null for a missing side",
    read_options=ArcionNativeRead,
    write_options=ArcionNativeWrite,
    reader=reader,
    writer=writer,
    carries=carrying(all_but=(*arcion.NOT_CARRIED, "null-text")),
    signs=(("opType", "cursor"),),
    yields_to=("arcion-json",),
)
