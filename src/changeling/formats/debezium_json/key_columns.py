"""The keys of plain events, by columns: from message keys, else from the columns that the user named."""

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.events import Events
from changeling.envelope.keys import canonical_objects, fit_rows, in_rows, keys_of
from changeling.envelope.shapes import Names, Shape, only_first_is_odd
from changeling.envelope.text_columns import joined

_WRAPPER = frozenset({"schema", "payload"})


class RowKeys(NamedTuple):
    """Canonical keys, what `meta` keeps of the message keys (with a comma in front), and their schema parts."""

    key: pa.Array
    noted: pa.Array | None = None
    schema: pa.Array | None = None


def row_keys(
    events: Events,
    row: pa.Array,
    named: list[Names],
    places: pa.Array,
    usual: Callable[[pa.Array], pa.Array] = lambda key: key,
) -> RowKeys:
    """The keys of events. `named` are the key columns that the user declared for each table, `places` the tables of events.

    A message key that is `usual` for a canonical key needs no note.
    """
    given = events.records.column("key")
    if given.null_count == len(given):
        return RowKeys(_named_columns(events, row, named, places))
    events.expect(pc.is_valid(given))
    events.check()
    columns, schema = _unwrapped(events, given)
    key, names = canonical_objects(columns)
    events.expect(pc.is_valid(key))
    events.check()
    events.expect(fit_rows(columns, key, names, row))
    events.check()
    same = pc.equal(usual(key).cast(pa.binary()), given)
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
