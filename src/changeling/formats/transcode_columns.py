"""Values of one dialect into those of another by columns: what `transcode` does change by change, for whole batches."""

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.canonical_cells import are_canonical
from changeling.envelope.keys import canonical_objects
from changeling.envelope.shapes import Shape, ShapeMismatch
from changeling.envelope.text_columns import Mask, Places, TextPart, as_mask, joined, scattered
from changeling.formats.transcode import Transcoder
from changeling.formats.type_table import WriteColumn
from changeling.model import json_text
from changeling.model.canonical import Convert
from changeling.model.errors import CannotCarry, Rejected
from changeling.model.table import schema_from_json
from changeling.model.types import Type

_SHAPES = 16
"""How many shapes of images are converted by columns; changes with others are converted one by one."""


class _Column(NamedTuple):
    """How the values of one column of a table are converted."""

    convert: Convert | None
    kind: Type | None = None
    """The type where values in their canonical form need no reading."""
    write: WriteColumn | None = None
    """How such values are written; None: as they are."""
    typed: bool = False


class Transcoded(NamedTuple):
    """Changes with values in the target's convention."""

    batch: pa.RecordBatch
    fits: Mask
    """For which that is all of them."""
    lossy: Mask
    """Which of them have a value that is read back as another one."""


def transcoded(batch: pa.RecordBatch, transcoder: Transcoder) -> Transcoded:
    """The changes of a batch; those whose values need a closer look stay as they are."""
    schemas = batch.column("schema").dictionary_encode()
    codes = pc.fill_null(schemas.indices, -1).to_numpy()
    done, lossy = np.ones(batch.num_rows, np.bool_), np.zeros(batch.num_rows, np.bool_)
    for side in ("key", "before", "after"):
        place = batch.schema.get_field_index(side)
        given = batch.column(side).cast(pa.binary())
        there, parts = as_mask(pc.is_valid(given)), []
        for code in np.unique(codes):
            rows = np.flatnonzero((codes == code) & there)
            columns = _columns(transcoder, None if code < 0 else schemas.dictionary[int(code)].as_py())
            made, fits, lost = _objects(given.take(pa.array(rows)), columns, _Column(transcoder.untyped), transcoder)
            done[rows] &= fits
            lossy[rows] |= lost
            parts.append((rows, made))
        found = scattered(parts, batch.num_rows).cast(pa.string())
        if side == "key":
            found, _ = canonical_objects(found.cast(pa.binary()))
            done &= as_mask(pc.or_(pc.is_valid(found), pc.is_null(given)))
        batch = batch.set_column(place, batch.schema.field(place), found)
    return Transcoded(batch, done, lossy)


def _columns(transcoder: Transcoder, schema: str | None) -> dict[str, _Column]:
    if schema is None:
        return {}
    plan = transcoder.plan(schema)
    found = {}
    for column in schema_from_json(schema).columns:
        kind = column.canonical if transcoder.takes_canonical(column) else None
        write = transcoder.column_writer(column.canonical)
        found[column.name] = _Column(plan[column.name], kind, write, typed=True)
    return found


def _objects(
    texts: pa.Array, columns: dict[str, _Column], untyped: _Column, transcoder: Transcoder
) -> tuple[pa.Array, Mask, Mask]:
    """Images or keys converted, which could be (the others are as they were), and which lose a type."""
    done, lossy = np.zeros(len(texts), np.bool_), np.zeros(len(texts), np.bool_)
    parts: list[tuple[Places, pa.Array]] = []
    for _ in range(_SHAPES):
        left = np.flatnonzero(~done)
        if not len(left):
            return scattered(parts, len(texts)), done, lossy
        shape = Shape.of(texts[int(left[0])].as_py())
        rows, members = _of_shape(texts, left, shape)
        if shape is None or members is None:
            break
        fits = np.ones(len(rows), np.bool_)
        values = {}
        for name, cells in members.items():
            values[name], fine, lost = _converted(cells, columns.get(name, untyped), transcoder)
            fits &= fine
            lossy[rows] |= lost
        if not fits[0]:
            break
        unchanged = shape.is_compact and all(values[name] is cells for name, cells in members.items())
        made = texts.take(pa.array(rows)) if unchanged else _joined(values)
        parts.append((rows[fits], made.filter(pa.array(fits))))
        done[rows[fits]] = True
    left = np.flatnonzero(~done)
    return scattered([*parts, (left, texts.take(pa.array(left)))], len(texts)), done, lossy


def _of_shape(texts: pa.Array, rows: Places, shape: Shape | None) -> tuple[Places, dict[str, pa.Array] | None]:
    """The rows among these that have a shape, and their members."""
    while shape is not None and len(rows):
        try:
            return rows, shape.members(texts.take(pa.array(rows)))
        except ShapeMismatch as error:
            rows = rows[error.plain]
    return rows, None


def _converted(cells: pa.Array, column: _Column, transcoder: Transcoder) -> tuple[pa.Array, Mask, Mask]:
    """The values of one column, which could be converted, and which lose their type."""
    convert, found, lossy = column.convert, cells, np.zeros(len(cells), np.bool_)
    if convert is None:
        return cells, ~lossy, lossy
    others = as_mask(pc.not_equal(cells, b"null"))
    if column.kind is not None:
        plain = others & are_canonical(cells, column.kind)
        others = others & ~plain
        if column.write is not None and plain.any():
            found = _put(found, plain, column.write(cells.filter(pa.array(plain))))
    if others.any():
        # Equal values are converted once.
        given = cells.filter(pa.array(others)).dictionary_encode()
        made = [_one(value, convert, column.typed, transcoder) for value in given.dictionary.to_pylist()]
        found = _put(found, others, pa.array([one for one, _ in made], pa.binary()).take(given.indices))
        lossy[others] = np.array([lost for _, lost in made], np.bool_)[given.indices.to_numpy()]
    fits = as_mask(pc.is_valid(found))
    return found if fits.all() else pc.fill_null(found, b"null"), fits, lossy


def _put(cells: pa.Array, mask: Mask, values: pa.Array) -> pa.Array:
    return values if mask.all() else pc.replace_with_mask(cells, pa.array(mask), values)


def _one(value: bytes, convert: Convert, typed: bool, transcoder: Transcoder) -> tuple[bytes | None, bool]:
    """A value in the target's convention, None where that needs a closer look; and whether it loses its type."""
    try:
        made = convert(value)
    except (CannotCarry, Rejected, msgspec.DecodeError, ArithmeticError, RecursionError):
        return None, False
    return made, transcoder.loss(value, made, typed=typed) is not None


def _joined(values: dict[str, pa.Array]) -> pa.Array:
    parts: list[TextPart] = []
    for name, cells in values.items():
        parts += [(b"," if parts else b"{") + json_text.head(name), cells]
    return joined(*parts, b"}")
