"""The records of a batch in groups that are read together, and what is left to be read one by one."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from changeling.envelope.shapes import ShapeMismatch
from changeling.envelope.text_columns import Mask, Places

_ATTEMPTS = 16
"""How often some records of a batch are tried by columns; what no attempt took is read one by one."""


UNFIT = (ValueError, TypeError, ArithmeticError, RecursionError, pa.ArrowCapacityError, pa.ArrowNotImplementedError)
"""What columns raise where some value has no place in them."""


Found = TypeVar("Found")


class _Trial(NamedTuple, Generic[Found]):
    """What became of a group: what was made of it in the end, None where it was not taken."""

    made: Found | None
    group: Places
    """The records that it had in the end."""
    refused: Places
    """Those that had to leave it before, in order."""
    attempts: int


def in_groups(candidates: Mask, attempt: Callable[[Places], Found]) -> tuple[list[tuple[Places, Found]], Places]:
    """What `attempt` makes of the candidates, group by group, with their places; and the places of all that it does not take.

    It takes records that are as the first one; it raises `ShapeMismatch` for the others, and is called again without these. They are
    the next group. The number of calls is limited: where each record has a shape of its own, the cost must not grow with the square of
    the batch.
    """
    waiting = np.flatnonzero(candidates)
    taken: list[tuple[Places, Found]] = []
    not_taken = [np.flatnonzero(~candidates)]
    attempts = 0
    while len(waiting) and attempts < _ATTEMPTS:
        trial = _try(waiting, attempt, _ATTEMPTS - attempts)
        attempts += trial.attempts
        if trial.made is None:
            not_taken.append(trial.group)
        else:
            taken.append((trial.group, trial.made))
        first_is_refused = len(trial.refused) > 0 and trial.refused[0] == waiting[0]
        if first_is_refused:
            # No other record can be as it is: in front of the next group, it would be refused again.
            not_taken.append(waiting[:1])
        waiting = trial.refused[1:] if first_is_refused else trial.refused
    return taken, np.sort(np.concatenate([*not_taken, waiting]))


def _try(group: Places, attempt: Callable[[Places], Found], limit: int) -> _Trial[Found]:
    """Tries a group, and again without the records that it refuses, until it is taken, cannot be, or was tried often enough."""
    refused, attempts = [group[:0]], 0
    made: Found | None = None
    while made is None and attempts < limit:
        attempts += 1
        try:
            made = attempt(group)
        except ShapeMismatch as error:
            if not error.plain.any():
                break
            refused.append(group[~error.plain])
            group = group[error.plain]
        except UNFIT:
            # A value has no place in its column: reading one by one finds out whose it is.
            break
    return _Trial(made, group, np.sort(np.concatenate(refused)), attempts)


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
