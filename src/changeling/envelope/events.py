"""Records of one shape on their way into changes: their texts and their leaves as columns, and which of them are plain."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from changeling.envelope.shapes import OddOnes
from changeling.envelope.text_columns import Mask, as_mask

_ROUNDS = 6
"""How many shapes of one batch are read by columns; what is left is read record by record."""


class Group:
    """Rows that are looked at together: some of them may turn out not to be plain."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._plain: Mask | None = None

    def expect(self, plain: pa.Array | Mask) -> None:
        """Rows for which this is not true (or null) are not plain."""
        found = plain if isinstance(plain, np.ndarray) else as_mask(plain)
        self._plain = found if self._plain is None else self._plain & found

    def check(self) -> None:
        """Raises `OddOnes` where some rows are not plain."""
        if self._plain is not None and not self._plain.all():
            raise OddOnes(self._plain)


class Events(Group):
    """A group of records, taken apart: the leaves of what was decoded have paths."""

    def __init__(
        self, records: pa.RecordBatch, texts: dict[str, pa.Array], wrapper: dict[str, pa.Array] | None = None
    ) -> None:
        super().__init__(records.num_rows)
        self.records = records
        self.texts = texts
        """Members of the envelopes, as columns of JSON."""
        self.wrapper = wrapper or {}
        """Members of what the envelopes are in."""
        self._leaves: dict[str, Sequence[Any]] = {}

    def add(self, structs: Sequence[Any], names: Sequence[str], within: str = "") -> None:
        """Takes these members of a struct for each record; those of the member `source` of an envelope are `within` it."""
        # Every struct is visited once, for all of its leaves: most of the time is spent on fetching them from memory.
        columns = zip(*map(attrgetter(*names), structs), strict=True)
        self._leaves |= {f"{within}{name}": leaves for name, leaves in zip(names, columns, strict=True)}

    def leaves(self, path: str) -> Sequence[Any]:
        """The value at a path (`source.tx_id`) of every record."""
        return self._leaves[path]

    def numbers(self, path: str) -> pa.Array:
        """The integers at a path."""
        return pa.array(self.leaves(path), pa.int64())


class Plain(NamedTuple):
    """The changes of the plain records of a batch, one each, and the places of the other records."""

    changes: pa.RecordBatch
    places: np.ndarray[Any, np.dtype[np.int64]]
    others: list[int]


def plain_changes(
    batch: pa.RecordBatch, candidates: Mask, read: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Plain | None:
    """The changes of the candidates that `read` takes, group by group; None where it takes none.

    `read` reads records that have the shape of the first one; it raises `OddOnes` for the others, and is called again without.
    """
    left = np.flatnonzero(candidates)
    found: list[tuple[np.ndarray[Any, Any], pa.RecordBatch]] = []
    others = [np.flatnonzero(~candidates)]
    for _ in range(_ROUNDS):
        if not len(left):
            break
        group, odd = left, [left[:0]]
        while len(group):
            try:
                found.append((group, read(batch if len(group) == batch.num_rows else batch.take(pa.array(group)))))
                break
            except OddOnes as error:
                odd.append(group[~error.plain])
                group = group[error.plain]
            except (ValueError, TypeError, OverflowError, RecursionError, pa.ArrowCapacityError):
                # A value that has no place in its column: the way record by record finds out whose it is.
                others.append(group)
                break
        rest = np.sort(np.concatenate(odd))
        if len(rest) and rest[0] == left[0]:
            others.append(rest[:1])
            rest = rest[1:]
        left = rest
    if not found:
        return None
    outside = sorted(np.concatenate([*others, left]).tolist())
    if len(found) == 1:
        return Plain(found[0][1], found[0][0], outside)
    places = np.concatenate([group for group, _ in found])
    changes = pa.concat_batches([made for _, made in found])
    order = np.argsort(places)
    return Plain(changes.take(pa.array(order)), places[order], outside)
