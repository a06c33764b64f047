"""The keys of plain events, by columns: from message keys, else from the columns that the user named."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.events import Events
from changeling.envelope.keys import canonical_objects, in_rows, keys_of
from changeling.envelope.shapes import Names, Shape, only_first_is_odd
from changeling.envelope.text_columns import as_mask, byte_lengths, cut, every, joined, starts

_WRAPPER = frozenset({"schema", "payload"})


class RowKeys(NamedTuple):
    """Canonical keys, what `meta` keeps of the message keys (with a comma in front), and their schema parts."""

    key: pa.Array
    noted: pa.Array | None = None
    schema: pa.Array | None = None


def row_keys(events: Events, row: pa.Array, named: list[Names], places: pa.Array) -> RowKeys:
    """The keys of events; `named` are the key columns that the user declared for each table, `places` the tables of events."""
    given = events.records.column("key")
    if given.null_count == len(given):
        return RowKeys(_named_columns(events, row, named, places))
    events.expect(pc.is_valid(given))
    events.check()
    columns, schema = _unwrapped(events, given)
    key, names = canonical_objects(columns)
    events.expect(pc.is_valid(key))
    events.check()
    _check_rows(events, columns, key, names, row)
    same = pc.equal(key.cast(pa.binary()), given)
    if pc.all(same).as_py():
        return RowKeys(key, None, schema)
    return RowKeys(key, pc.if_else(same, b"", joined(b',"key":', given)), schema)


def _unwrapped(events: Events, given: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """The columns of message keys, and their schema parts."""
    shape = Shape.of(given[0].as_py())
    if shape is None:
        raise only_first_is_odd(events.count)
    if "payload" in shape.names and set(shape.names) <= _WRAPPER:
        parts = shape.members(given)
        return parts["payload"], parts.get("schema")
    wrapped = pc.or_(pc.starts_with(given, b'{"payload":'), pc.starts_with(given, b'{"schema":'))
    events.expect(pc.invert(wrapped))
    return given, None


def _named_columns(events: Events, row: pa.Array, named: list[Names], places: pa.Array) -> pa.Array:
    names = named[places[0].as_py()]
    if len(set(named)) > 1:
        events.expect(pa.array([own == names for own in named], pa.bool_()).take(places))
        events.check()
    if not names:
        return pa.nulls(events.count, pa.string())
    values, plain = in_rows(row, names)
    events.expect(plain)
    events.check()
    return keys_of(list(zip(names, values, strict=True)))


def _check_rows(events: Events, columns: pa.Array, key: pa.Array, names: Names | None, row: pa.Array) -> None:
    """Plain events have rows that begin with the columns of their keys, or contain equal ones elsewhere."""
    lengths = byte_lengths(columns)
    heads = every(cut(columns, np.column_stack((lengths - 1, np.ones_like(lengths)))), 0, 2)
    begins, rest = starts(row, heads)
    fits = begins & as_mask(pc.or_(pc.starts_with(rest, b","), pc.starts_with(rest, b"}")))
    if not fits.all() and names is not None:
        values, plain = in_rows(row, names)
        fits |= plain & as_mask(pc.equal(keys_of(list(zip(names, values, strict=True))), key.cast(pa.binary())))
    events.expect(fits)
    events.check()
