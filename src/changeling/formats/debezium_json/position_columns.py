"""The positions of plain events: by columns for the most common connectors, else event by event."""

from collections.abc import Callable, Sequence
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.events import Events
from changeling.envelope.parts import are_positions, positions
from changeling.formats.debezium_json.envelope import Source
from changeling.formats.debezium_json.positions import position_of
from changeling.model import layout

Components = list[pa.Array] | None
"""The numbers of positions; None where a closer look at each event is needed."""


def positions_of(events: Events, sources: Sequence[Source], transaction: pa.Array) -> pa.Array:
    """The positions of events; null where one has none."""
    texts = pa.array(events.leaves("source.position"), pa.string())
    if not texts.null_count:
        events.expect(are_positions(texts))
        return texts
    connectors = [(name or "").lower() for name in events.leaves("source.connector")]
    if texts.null_count == len(texts) and len(set(connectors)) == 1 and connectors[0] in _BY_CONNECTOR:
        own, inside = _BY_CONNECTOR[connectors[0]](sources), _inside(transaction)
        if own is not None and inside is not None:
            return positions(*own, *inside)
    places = layout.transactions(transaction)
    return pa.array(map(position_of, sources, connectors, places), pa.string(), size=len(sources))


def _postgresql(sources: Sequence[Source]) -> Components:
    found = pc.extract_regex(_texts(sources, "sequence"), r'^\["(?P<commit>[0-9]{1,18})","(?P<own>[0-9]{1,18})"\]$')
    return None if found.null_count else [part.cast(pa.int64()) for part in found.flatten()]


def _mysql(sources: Sequence[Source]) -> Components:
    files = pc.struct_field(pc.extract_regex(_texts(sources, "file"), r"\.(?P<digits>[0-9]{1,18})$"), "digits")
    numbers = [pa.array(map(attrgetter(name), sources), size=len(sources)) for name in ("pos", "row")]
    if files.null_count or numbers[0].null_count or any(not pa.types.is_integer(column.type) for column in numbers):
        return None
    return [files.cast(pa.int64()), numbers[0], pc.fill_null(numbers[1], 0)]


_BY_CONNECTOR: dict[str, Callable[[Sequence[Source]], Components]] = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "mariadb": _mysql,
}


def _texts(sources: Sequence[Source], name: str) -> pa.Array:
    return pa.array(map(attrgetter(name), sources), pa.string(), size=len(sources))


def _inside(transaction: pa.Array) -> Components:
    """The places inside of transactions, which follow a position that several changes may share."""
    if transaction.null_count == len(transaction):
        return []
    places = [transaction.field("total"), transaction.field("order")]
    if transaction.null_count or any(place.null_count for place in places):
        return None
    return [pc.max_element_wise(place, 0) for place in places]
