"""The parts that the envelopes of dialects have in common: words for operations, tables, clocks, positions, transactions.

Each is declared with the paths at which an envelope has it, and makes columns of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.events import Events
from changeling.envelope.text_columns import as_mask, distinct, distinct_rows
from changeling.model import layout
from changeling.model.operation import Operation
from changeling.model.table import TableName

_LENGTHS = [f"{digits:02d}" for digits in range(100)]
_COMPONENT = r"^[0-9]{2}(?:0|[1-9][0-9]*)$"


@dataclass(frozen=True)
class Words:
    """What a dialect calls operations on rows."""

    member: str
    operations: Mapping[str, Operation]

    def __call__(self, events: Events) -> pa.Array:
        """The operations of events whose `member` is one of the words."""
        found = events.texts[self.member].dictionary_encode()
        words = [self._operation(text) for text in found.dictionary.to_pylist()]
        return pa.array(words, pa.string()).take(found.indices)

    def _operation(self, text: bytes) -> str | None:
        word = msgspec.json.decode(text)
        operation = self.operations.get(word) if isinstance(word, str) else None
        return None if operation is None else operation.value


@dataclass(frozen=True)
class Tables:
    """How an envelope names its table: `name` makes it of the leaves at these paths, None where they name none."""

    paths: tuple[str, ...]
    name: Callable[..., TableName | None]

    def __call__(self, events: Events) -> tuple[list[TableName], pa.Array]:
        """The distinct tables, and which of them each event belongs to; events that name none are not plain."""
        found, places = distinct_rows([events.leaves(path) for path in self.paths])
        names = [self.name(*leaves) for leaves in found]
        if None in names:
            events.expect(pa.array([name is not None for name in names], pa.bool_()).take(places))
            events.check()
        tables, order = distinct(names)
        return [table for table in tables if table is not None], order.take(places)


@dataclass(frozen=True)
class Clock:
    """When the source committed: the leaves at these paths with their units in nanoseconds, the first that is present counts."""

    units: Mapping[str, int]

    def __call__(self, events: Events) -> pa.Array:
        """Nanoseconds; events without any time are not plain."""
        found = None
        for path, nanos in self.units.items():
            leaves = events.numbers(path)
            if leaves.null_count == len(leaves):
                continue
            time = leaves if nanos == 1 else pc.multiply_checked(leaves, nanos)
            found = time if found is None else pc.coalesce(found, time)
            if not found.null_count:
                return found
        events.expect(pa.nulls(events.count, pa.bool_()) if found is None else pc.is_valid(found))
        events.check()
        raise AssertionError("some event has no time")


@dataclass(frozen=True)
class Transactions:
    """The paths of a transaction's id, of the place inside it, and of the place in the entire log."""

    id: str
    order: str
    total: str

    def __call__(self, events: Events) -> pa.Array:
        """The transactions of events that all have one."""
        ids = pa.array(events.leaves(self.id), pa.string())
        return transactions(ids, events.numbers(self.order), events.numbers(self.total))


def transactions(ids: pa.Array, orders: pa.Array, totals: pa.Array) -> pa.Array:
    """Transactions as a column; null where the id is."""
    mask = None if not ids.null_count else pc.is_null(ids)
    if mask is not None:
        # What a null transaction would have is of no concern, and differs from reader to reader if it is kept.
        ids = pc.fill_null(ids, "")
    ends = pa.nulls(len(ids), pa.bool_())
    return pa.StructArray.from_arrays([ids, orders, totals, ends], fields=list(layout.TRANSACTION), mask=mask)


def positions(*components: pa.Array) -> pa.Array:
    """Positions of these integers (of 64 bits); null where one of them is null or negative."""
    parts: list[pa.Array | str] = []
    for component in components:
        if (pc.min(component).as_py() or 0) < 0:
            component = pc.if_else(pc.greater_equal(component, 0), component, None)
        digits = component.cast(pa.string())
        parts += [pa.array(_LENGTHS, pa.string()).take(pc.binary_length(digits)), digits, "."]
    return pc.binary_join_element_wise(*parts[:-1], "")


def are_positions(texts: pa.Array) -> Any:
    """Whether each text is a position, as `position.decode` sees it."""
    split = pc.split_pattern(texts, ".")
    parts = split.flatten()
    fits = pc.match_substring_regex(parts, _COMPONENT)
    lengths = pc.if_else(fits, pc.utf8_slice_codeunits(parts, 0, 2), None).cast(pa.int32())
    fits = pc.fill_null(pc.equal(lengths, pc.subtract(pc.utf8_length(parts), 2)), False)
    if pc.all(fits).as_py():
        return as_mask(pc.is_valid(texts))
    wrong = pc.list_parent_indices(split).filter(pc.invert(fits))
    found = as_mask(pc.is_valid(texts)).copy()
    found[wrong.to_numpy()] = False
    return found
