"""Turns new rows with a partial image into row events, with what is known about where they came from."""

import numpy as np
import pyarrow as pa

from changeling.replicas.key_moves import Moved, PositionAndKey
from changeling.replicas.keys import KeyReader
from changeling.replicas.row_effect import Effect
from changeling.replicas.row_events import CODES, OLD_KEY_UNKNOWN


def without_deletes_of_moves(
    batch: pa.RecordBatch, effects: np.ndarray, moved: Moved
) -> tuple[pa.RecordBatch, np.ndarray]:
    """The changes and their effects, without deletes that only report that a row moved away."""
    if not moved.deletes:
        return batch, effects
    kept = effects != CODES[Effect.DELETE]
    for row in np.flatnonzero(~kept).tolist():
        kept[row] = _place(batch, row) not in moved.deletes
    return batch.filter(pa.array(kept)), effects[kept]


def with_known_moves(
    batch: pa.RecordBatch, effects: np.ndarray, moved: Moved, moves: dict[int, str], reader: KeyReader
) -> np.ndarray:
    """The effects, with rows marked whose old key has not been looked up yet.

    What is known goes into `moves`: the key that the row had, by the number of the change.
    """
    unknown = [row for row in np.flatnonzero(effects == CODES[Effect.PARTIAL_INSERT]).tolist() if row not in moves]
    if not unknown:
        return effects
    effects = effects.copy()
    for row in unknown:
        place = _place(batch, row)
        if place not in moved.old_keys:
            effects[row] = CODES[OLD_KEY_UNKNOWN]
        elif (old := moved.old_keys[place]) is not None and (key := reader.one(old)) is not None:
            moves[row] = key
    return effects


def _place(batch: pa.RecordBatch, row: int) -> PositionAndKey:
    return batch.column("position")[row].as_py(), batch.column("key")[row].as_py()
