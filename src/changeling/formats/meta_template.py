"""The `meta` of changes as the log stores it: a template, without the values that other columns have (`Cells.object_meta`).

What was left out is `null`; the last member, `left_out`, says by path where it comes from. So most changes of a table have the same
`meta`, and a Parquet file stores it once. Records of before, and what does not give its exact text again, are stored whole.
"""

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.text_columns import Mask, Places, as_mask, joined, scattered
from changeling.formats import registry
from changeling.model import json_text, times

_TEMPLATE = r',"left_out":\{[^{}]*\}\}$'


def _milliseconds(changes: pa.RecordBatch) -> pa.Array:
    return pc.divide(changes.column("commit_time"), times.NANOS_PER_MILLI).cast(pa.string())


def _component(place: int) -> Callable[[pa.RecordBatch], pa.Array]:
    pattern = rf"^(?:[0-9]+\.){{{place}}}[0-9]{{2}}(?P<digits>[0-9]+)"

    def component(changes: pa.RecordBatch) -> pa.Array:
        return pc.struct_field(pc.extract_regex(changes.column("position"), pattern), "digits")

    return component


VALUES: Mapping[str, Callable[[pa.RecordBatch], pa.Array]] = {
    "commit_time.ms": _milliseconds,
    "position.0": _component(0),
}
"""Where a value comes from, and its text in each change. A format names no others (`Cells.object_meta`)."""


class _Template(NamedTuple):
    """What changes have around the values that are left out, and where these come from."""

    around: tuple[bytes, ...]
    values: tuple[str, ...]


def with_whole_meta(changes: pa.RecordBatch) -> pa.RecordBatch:
    """The changes with their whole `meta`."""
    meta, may_be = changes.column("meta"), _may_be_templates(changes.column("encoding"))
    if not may_be.any() or not pc.any(pc.match_substring(meta, ',"left_out":')).as_py():
        return changes
    rows = np.flatnonzero(may_be & as_mask(pc.match_substring_regex(meta, _TEMPLATE)))
    if not len(rows):
        return changes
    coded = meta.take(pa.array(rows)).dictionary_encode()
    kind = coded.indices.to_numpy()
    found = [_parsed(text) for text in coded.dictionary.to_pylist()]
    parts: list[tuple[Places, pa.Array]] = []
    for values in {template.values for template in found}:
        own = np.flatnonzero(np.array([template.values == values for template in found])[kind])
        parts.append((rows[own], _whole(changes, found, values, kind[own], rows[own])))
    whole = pc.coalesce(scattered(parts, len(meta)).cast(meta.type), meta)
    place = changes.schema.get_field_index("meta")
    return changes.set_column(place, changes.schema.field(place), whole)


def _may_be_templates(encodings: pa.Array) -> Mask:
    known = set(registry.names())
    own = [name for name in encodings.unique().to_pylist() if name in known and registry.get(name).meta_templates]
    return as_mask(pc.is_in(encodings, pa.array(own, pa.string())))


def _whole(
    changes: pa.RecordBatch, found: list[_Template], values: tuple[str, ...], kind: Places, rows: Places
) -> pa.Array:
    """The whole `meta` of these rows, each with a template of its own kind."""
    known = {value: VALUES[value](changes) for value in set(values)}
    places, at = pa.array(kind), pa.array(rows)
    parts: list[pa.Array | bytes] = []
    for number in range(len(values) + 1):
        around = [template.around[number] if template.values == values else None for template in found]
        parts.append(pa.array(around, pa.binary()).take(places))
        if number < len(values):
            parts.append(known[values[number]].take(at))
    return joined(*parts).cast(pa.string())


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> _Template:
    """A template that the log has."""
    whole = text.encode()
    origins = msgspec.json.decode(json_text.members(whole)["left_out"], type=dict[str, str])
    bare = whole[: whole.rindex(b',"left_out":')] + b"}"
    found = ((_span(bare, path), value) for path, value in origins.items())
    spans = sorted((*span, value) for span, value in found if span is not None)
    bounds = [0, *(place for start, end, _ in spans for place in (start, end)), len(bare)]
    around = tuple(bare[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True))
    return _Template(around, tuple(value for _, _, value in spans))


def _span(text: bytes, path: str) -> tuple[int, int] | None:
    """Where the value of a member is: the objects of a template are compact.

    None where there is no such member: earlier versions also named members that an event lacked.
    """
    start, value = 0, text
    for name in path.split("."):
        members = json_text.members(value)
        if name not in members:
            return None
        in_front = list(members.items())[: list(members).index(name)]
        start += (
            1 + sum(len(json_text.head(other)) + len(one) + 1 for other, one in in_front) + len(json_text.head(name))
        )
        value = members[name]
    return start, start + len(value)
