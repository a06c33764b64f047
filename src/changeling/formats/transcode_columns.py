"""Values of one dialect into those of another by columns: what `transcode` does change by change, for whole batches."""

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.canonical_cells import are_canonical
from changeling.envelope.keys import canonical_objects
from changeling.envelope.shapes import OddOnes, Shape
from changeling.envelope.text_columns import Mask, Part, Places, as_mask, joined, placed
from changeling.formats.transcode import Transcoder
from changeling.model import canonical, json_text
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
    """The type where the conversion only brings values into their canonical form."""
    typed: bool = False


def transcoded(batch: pa.RecordBatch, transcoder: Transcoder) -> tuple[pa.RecordBatch, Mask]:
    """The changes with values in the target's convention, and for which that is all of them, without a loss."""
    schemas = batch.column("schema").dictionary_encode()
    codes = pc.fill_null(schemas.indices, -1).to_numpy()
    done = np.ones(batch.num_rows, np.bool_)
    for side in ("key", "before", "after"):
        place = batch.schema.get_field_index(side)
        given = batch.column(side).cast(pa.binary())
        there, parts = as_mask(pc.is_valid(given)), []
        for code in np.unique(codes):
            rows = np.flatnonzero((codes == code) & there)
            columns = _columns(transcoder, None if code < 0 else schemas.dictionary[int(code)].as_py())
            made, fits = _objects(given.take(pa.array(rows)), columns, _Column(transcoder.untyped), transcoder)
            done[rows] &= fits
            parts.append((rows, made))
        found = placed(parts, batch.num_rows).cast(pa.string())
        if side == "key":
            found, _ = canonical_objects(found.cast(pa.binary()))
            done &= as_mask(pc.or_(pc.is_valid(found), pc.is_null(given)))
        batch = batch.set_column(place, batch.schema.field(place), found)
    return batch, done


def _columns(transcoder: Transcoder, schema: str | None) -> dict[str, _Column]:
    if schema is None:
        return {}
    plan = transcoder.plan(schema)
    found = {}
    for column in schema_from_json(schema).columns:
        convert = plan[column.name]
        checks_only = convert is canonical.reader(column.canonical)
        found[column.name] = _Column(convert, column.canonical if checks_only else None, typed=True)
    return found


def _objects(
    texts: pa.Array, columns: dict[str, _Column], untyped: _Column, transcoder: Transcoder
) -> tuple[pa.Array, Mask]:
    """Images or keys converted, and which could be; the others are as they were."""
    done = np.zeros(len(texts), np.bool_)
    parts: list[tuple[Places, pa.Array]] = []
    for _ in range(_SHAPES):
        left = np.flatnonzero(~done)
        if not len(left):
            return placed(parts, len(texts)), done
        shape = Shape.of(texts[int(left[0])].as_py())
        rows, members = _of_shape(texts, left, shape)
        if shape is None or members is None:
            break
        fits = np.ones(len(rows), np.bool_)
        values = {}
        for name, cells in members.items():
            values[name], fine = _converted(cells, columns.get(name, untyped), transcoder)
            fits &= fine
        if not fits[0]:
            break
        as_it_was = shape.is_compact and all(values[name] is cells for name, cells in members.items())
        made = texts.take(pa.array(rows)) if as_it_was else _joined(values)
        parts.append((rows[fits], made.filter(pa.array(fits))))
        done[rows[fits]] = True
    left = np.flatnonzero(~done)
    return placed([*parts, (left, texts.take(pa.array(left)))], len(texts)), done


def _of_shape(texts: pa.Array, rows: Places, shape: Shape | None) -> tuple[Places, dict[str, pa.Array] | None]:
    """The rows among these that have a shape, and their members."""
    while shape is not None and len(rows):
        try:
            return rows, shape.members(texts.take(pa.array(rows)))
        except OddOnes as error:
            rows = rows[error.plain]
    return rows, None


def _converted(cells: pa.Array, column: _Column, transcoder: Transcoder) -> tuple[pa.Array, Mask]:
    """The values of one column, and which could be converted without a loss; equal values are converted once."""
    convert = column.convert
    if convert is None:
        return cells, np.ones(len(cells), np.bool_)
    same = as_mask(pc.equal(cells, b"null"))
    if column.kind is not None:
        same = same | are_canonical(cells, column.kind)
    if same.all():
        return cells, same
    others = cells.filter(pa.array(~same)).dictionary_encode()
    made = [_one(value, convert, column.typed, transcoder) for value in others.dictionary.to_pylist()]
    found = pa.array(made, pa.binary()).take(others.indices)
    fits = same.copy()
    fits[~same] = as_mask(pc.is_valid(found))
    return pc.replace_with_mask(cells, pa.array(~same), pc.fill_null(found, b"null")), fits


def _one(value: bytes, convert: Convert, typed: bool, transcoder: Transcoder) -> bytes | None:
    """A value in the target's convention; None where that needs a closer look."""
    try:
        made = convert(value)
    except (CannotCarry, Rejected, msgspec.DecodeError):
        return None
    return None if transcoder.loss(value, made, typed=typed) is not None else made


def _joined(values: dict[str, pa.Array]) -> pa.Array:
    parts: list[Part] = []
    for name, cells in values.items():
        parts += [(b"," if parts else b"{") + json_text.head(name), cells]
    return joined(*parts, b"}")
