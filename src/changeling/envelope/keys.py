"""Canonical keys of rows, by columns: from message keys, or from the rows themselves."""

import functools
import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.shapes import UNUSABLE, Names, Shape, ShapeMismatch, decoded
from changeling.envelope.text_columns import Mask, as_mask, byte_lengths, column, cut, every, joined, starts
from changeling.model import json_text

_TEXT = r'"[^"\\\x00-\x1f]*"'
_PLAIN = rf"(?:{_TEXT}|0|-?[1-9][0-9]*|true|false|null|\{{{_TEXT}:{_TEXT}\}})"
"""Values that are their own canonical form, and need no closer look: scalars, and objects of one text."""
_SHAPES = 64


def are_canonical(values: pa.Array) -> Mask:
    """Whether each value (of valid JSON) is a scalar in canonical form, as far as its text shows."""
    return as_mask(pc.match_substring_regex(values.cast(pa.string()), f"^{_PLAIN}$"))


def keys_of(values: Sequence[tuple[str, pa.Array]]) -> pa.Array:
    """The keys of these columns, whose values are canonical."""
    parts: list[pa.Array | bytes] = [b"{"]
    for place, (name, column_) in enumerate(sorted(values, key=lambda pair: pair[0])):
        parts += [(b"," if place else b"") + json_text.head(name), column_]
    return joined(*parts, b"}")


def values_in(rows: pa.Array, names: Names) -> list[pa.Array]:
    """The values of these columns of rows; null where a row lacks one. Raises `ShapeMismatch` where some are not objects."""
    if any(map(UNUSABLE.search, names)):
        raise ShapeMismatch(np.zeros(len(rows), np.bool_))
    found = decoded(rows, _columns(names))
    made = []
    for place in range(len(names)):
        raws = list(map(attrgetter(f"column_{place}"), found))
        absent = [raw is msgspec.UNSET for raw in raws]
        if not any(absent):
            made.append(column(raws))
            continue
        values = column([_NULL if raw is msgspec.UNSET else raw for raw in raws])
        made.append(pc.if_else(pa.array(absent), None, values))
    return made


_NULL = msgspec.Raw(b"null")


@functools.lru_cache(maxsize=1024)
def _columns(names: Names) -> msgspec.json.Decoder[Any]:
    fields = [
        (f"column_{place}", msgspec.Raw | msgspec.UnsetType, msgspec.field(name=name, default=msgspec.UNSET))
        for place, name in enumerate(names)
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Columns", fields, gc=False))


def behind_key(rows: pa.Array, columns: pa.Array) -> tuple[Mask, pa.Array]:
    """Whether rows begin with the columns of their keys (compact objects), and what stands behind these."""
    lengths = byte_lengths(columns)
    heads = every(cut(columns, np.column_stack((lengths - 1, np.ones_like(lengths)))), 0, 2)
    begins, rest = starts(rows, heads)
    return begins & as_mask(pc.or_(pc.starts_with(rest, b","), pc.starts_with(rest, b"}"))), rest


def fit_rows(columns: pa.Array, key: pa.Array, names: Names | None, rows: pa.Array, *, in_part: bool = False) -> Mask:
    """Whether rows begin with the columns of their keys, or contain equal ones elsewhere; `in_part`: or lack some.

    `columns` are the keys as they are spelled (compact objects), `key` are the canonical ones, `names` the columns of all of them.
    """
    fits, _ = behind_key(rows, columns)
    if fits.all() or names is None:
        return fits
    same = np.ones(len(rows), np.bool_)
    for found, wanted in zip(values_in(rows, names), values_in(key.cast(pa.binary()), names), strict=True):
        equal = pc.equal(found, wanted)
        same &= as_mask(pc.or_kleene(equal, pc.is_null(found)) if in_part else equal)
    return fits | same


def canonical_objects(texts: pa.Array) -> tuple[pa.Array, Names | None]:
    """Keys that are objects of scalars, in canonical form, null where a text is another one or needs a closer look.

    With the names of their columns, in the order of the texts, where that is the same for all of them.
    """
    given = texts.cast(pa.string())
    found = pa.nulls(len(texts), pa.string())
    shapes = 0
    names: Names | None = None
    while found.null_count and shapes < _SHAPES:
        first = pc.index(pc.is_null(found), True).as_py()
        shape = Shape.of(texts[first].as_py() or b"")
        made = None if shape is None else _canonical(given, shape.names)
        if shape is None or made is None or not made[first].is_valid:
            break
        found, names, shapes = pc.coalesce(found, made), shape.names, shapes + 1
    return found, names if shapes == 1 else None


def _canonical(texts: pa.Array, names: Names) -> pa.Array:
    """The texts that are compact objects of these columns, with their columns sorted; null for the others."""
    heads = [re.escape(json_text.head(name).decode()) for name in names]
    if list(names) == sorted(names):
        pattern = ",".join(head + _PLAIN for head in heads)
        return pc.if_else(pc.match_substring_regex(texts, f"^\\{{{pattern}\\}}$"), texts, None)
    pattern = ",".join(f"{head}(?P<c{place}>{_PLAIN})" for place, head in enumerate(heads))
    values = pc.extract_regex(texts, f"^\\{{{pattern}\\}}$")
    return keys_of([(name, pc.struct_field(values, f"c{place}")) for place, name in enumerate(names)]).cast(pa.string())
