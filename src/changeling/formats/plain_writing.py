"""Which changes of a batch are written by columns: those that lose nothing but what the user allowed, and pass as they are."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.change_columns import ChangeColumns, RecordColumns, WrittenRecords, written
from changeling.envelope.objects import are_compact
from changeling.envelope.text_columns import Mask, as_mask, is_one_of
from changeling.formats.capabilities import SKIPPING, lacking
from changeling.formats.format import Format
from changeling.formats.key_changes import names_old_key
from changeling.formats.options import WriteOptions
from changeling.formats.transcode import Transcoder
from changeling.formats.transcode_columns import transcoded
from changeling.model.operation import ROW_OPERATIONS

_SIDES = ("before", "after")
_SILENT = frozenset({"transaction", "commit_time", "position", "catalog", "schema"})
"""What an envelope may have no place for: a record without it is written in the same way."""


class PlainRecords(NamedTuple):
    """The records of the plain changes of a batch, and what the others must know of them."""

    written: WrittenRecords
    dropped: Counter[str]
    as_text: int
    unplaced: set[int]
    """The places of those that were written without their position."""


class PlainWriter:
    """Writes plain changes of one format by columns, where it can."""

    def __init__(self, form: Format, options: WriteOptions, write: Callable[[ChangeColumns], RecordColumns]) -> None:
        self._format, self._drop, self._write = form, options.drop, write

    def __call__(self, batch: pa.RecordBatch, transcoder: Transcoder | None, dependent: Mask) -> PlainRecords | None:
        """The plain changes of a batch of one encoding; None where there are none.

        `transcoder` brings values into the convention of the format; it is None where they are in it. `dependent` are changes
        whose place depends on others.
        """
        candidates, lost = as_mask(is_one_of(batch.column("op"), ROW_OPERATIONS)) & ~dependent, {}
        given = batch
        if transcoder is not None:
            candidates &= ~names_old_key(batch)
            for feature, mask in lacking(batch, self._format.carries).items():
                if feature in _SILENT & self._drop:
                    lost[feature] = mask
                else:
                    candidates &= ~mask
            if transcoder.untyped is not None or batch.column("schema").null_count < batch.num_rows:
                batch, fits, lossy = transcoded(batch, transcoder)
                candidates &= fits & self._comparable(given)
                if "types" in self._drop - SKIPPING:
                    lost["types"] = lossy
                else:
                    candidates &= ~lossy
        found = written(batch, candidates, transcoder is None, self._drop - SKIPPING, self._write)
        if found is None:
            return None
        for feature, places in found.lost.items():
            mask = np.zeros(batch.num_rows, np.bool_)
            mask[places] = True
            lost[feature] = lost[feature] | mask if feature in lost else mask
        dropped = Counter({feature: int((mask & found.plain).sum()) for feature, mask in lost.items()})
        as_text = 0 if batch is given else self._became_text(given, batch, found.plain)
        unplaced = np.flatnonzero(lost["position"] & found.plain).tolist() if "position" in lost else ()
        return PlainRecords(found, +dropped, as_text, set(unplaced))

    def _comparable(self, batch: pa.RecordBatch) -> Mask:
        """Where the images show by their text alone whether values become other ones."""
        found = np.ones(batch.num_rows, np.bool_)
        for side in _SIDES if self._format.types.all_text else ():
            found &= are_compact(pc.fill_null(batch.column(side), "{}"))
        return found

    def _became_text(self, before: pa.RecordBatch, after: pa.RecordBatch, plain: Mask) -> int:
        if not self._format.types.all_text:
            return 0
        differ = np.zeros(before.num_rows, np.bool_)
        for side in _SIDES:
            differ |= as_mask(pc.not_equal(before.column(side), after.column(side)))
        return int((differ & plain & as_mask(pc.is_null(before.column("schema")))).sum())
