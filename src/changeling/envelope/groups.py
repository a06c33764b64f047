"""The records of a batch in groups that are read together, and what is left to be read one by one."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from changeling.envelope.shapes import ShapeMismatch
from changeling.envelope.text_columns import Mask, Places

_ATTEMPTS = 16
"""How often a batch is tried by columns, each time without those that were odd; what is left is looked at one by one."""


UNFIT = (ValueError, TypeError, OverflowError, RecursionError, pa.ArrowCapacityError, pa.ArrowNotImplementedError)
"""What columns raise where some value has no place in them."""


Found = TypeVar("Found")


def in_groups(candidates: Mask, attempt: Callable[[Places], Found]) -> tuple[list[tuple[Places, Found]], Places]:
    """What `attempt` makes of the candidates, group by group, with their places; and the places of all that it does not take.

    It takes those that are as the first one; it raises `ShapeMismatch` for the others, and is called again without, a limited number
    of times: where each has a shape of its own, the cost must not grow with the square of the batch.
    """
    left = np.flatnonzero(candidates)
    found: list[tuple[Places, Found]] = []
    others = [np.flatnonzero(~candidates)]
    attempts = 0
    while len(left) and attempts < _ATTEMPTS:
        group, odd = left, [left[:0]]
        while len(group) and attempts < _ATTEMPTS:
            attempts += 1
            try:
                found.append((group, attempt(group)))
                break
            except ShapeMismatch as error:
                if not error.plain.any():
                    others.append(group)
                    break
                odd.append(group[~error.plain])
                group = group[error.plain]
            except UNFIT:
                # A value that has no place in its column: the way one by one finds out whose it is.
                others.append(group)
                break
        else:
            others.append(group)
        rest = np.sort(np.concatenate(odd))
        if len(rest) and rest[0] == left[0]:
            others.append(rest[:1])
            rest = rest[1:]
        left = rest
    return found, np.sort(np.concatenate([*others, left]))


class Plain(NamedTuple):
    """The changes of the plain records of a batch, one each, and the places of the other records."""

    changes: pa.RecordBatch
    places: Places
    others: list[int]


def plain_changes(
    batch: pa.RecordBatch, candidates: Mask, read: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Plain | None:
    """The changes of the candidates that `read` takes, group by group (see `in_groups`); None where it takes none."""
    found, others = in_groups(candidates, lambda group: read(rows_of(batch, group)))
    if not found:
        return None
    if len(found) == 1:
        return Plain(found[0][1], found[0][0], others.tolist())
    places = np.concatenate([group for group, _ in found])
    changes = pa.concat_batches([made for _, made in found])
    order = np.argsort(places)
    return Plain(changes.take(pa.array(order)), places[order], others.tolist())


def rows_of(batch: pa.RecordBatch, places: Places) -> pa.RecordBatch:
    """These rows of a batch."""
    return batch if len(places) == batch.num_rows else batch.take(pa.array(places))
