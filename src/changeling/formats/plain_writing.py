"""Which changes of a batch are written by columns: those that lose nothing but what the user allowed, and pass as they are."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.change_columns import ChangeColumns, RecordColumns, WrittenRecords, written
from changeling.envelope.objects import are_compact
from changeling.envelope.text_columns import Mask, as_mask, is_one_of
from changeling.formats.capabilities import LABELS, SKIPPING
from changeling.formats.format import Format
from changeling.formats.key_changes import names_origin
from changeling.formats.options import WriteOptions
from changeling.formats.transcode import Transcoder
from changeling.formats.transcode_columns import transcoded
from changeling.model.operation import ROW_OPERATIONS, Image, Operation

_SHOWN = (Image.FULL.value, Image.PARTIAL.value)
"""Images that have values."""
_SIDES = ("before", "after")


class PlainRecords(NamedTuple):
    """The records of the plain changes of a batch, and what the others must know of them."""

    written: WrittenRecords
    dropped: Counter[str]
    relabelled: Counter[str]
    as_text: int
    unplaced: set[int]
    """The places of those that were written without their position."""


class PlainWriter:
    """Writes plain changes of one format by columns, where it can."""

    def __init__(self, form: Format, options: WriteOptions, write: Callable[[ChangeColumns], RecordColumns]) -> None:
        self._format, self._drop, self._write = form, options.drop, write
        self._names_topic = options.names_topic

    def __call__(self, batch: pa.RecordBatch, transcoder: Transcoder | None, unsettled: Mask) -> PlainRecords | None:
        """The plain changes of a batch of one encoding; None where there are none.

        `transcoder` brings values into the convention of the format; it is None where they are in it. `unsettled` are changes
        whose place depends on others.
        """
        candidates, lost = as_mask(is_one_of(batch.column("op"), ROW_OPERATIONS)) & ~unsettled, {}
        given = batch
        if transcoder is not None:
            candidates &= ~names_origin(batch)
            for feature, mask in _needed(batch).items():
                if feature in self._format.carries:
                    continue
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
        native = transcoder is None
        found = written(batch, candidates, native, self._drop - SKIPPING, self._write)
        if found is None:
            return None
        if native and not self._names_topic:
            found = found._replace(records=_on_their_topics(found.records))
        for feature, places in found.lost.items():
            mask = np.zeros(batch.num_rows, np.bool_)
            mask[places] = True
            lost[feature] = lost[feature] | mask if feature in lost else mask
        dropped = Counter({feature: int((mask & found.plain).sum()) for feature, mask in lost.items()})
        as_text = 0 if batch is given else self._became_text(given, batch, found.plain)
        unplaced = np.flatnonzero(lost["position"] & found.plain).tolist() if "position" in lost else ()
        return PlainRecords(found, +dropped, self._relabelled(batch, native, found.plain), as_text, set(unplaced))

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

    def _relabelled(self, batch: pa.RecordBatch, native: bool, plain: Mask) -> Counter[str]:
        labels = LABELS - self._format.carries
        if native or not labels:
            return Counter()
        counts = pc.value_counts(batch.column("op").filter(pa.array(plain)))
        return Counter({row["values"]: row["counts"] for row in counts.to_pylist() if row["values"] in labels})


def _on_their_topics(records: pa.RecordBatch) -> pa.RecordBatch:
    """Records on the topics that they were read from, whatever their dialect would call them."""
    place = records.schema.get_field_index("topic")
    topics = pc.coalesce(pc.struct_field(records.column("origin"), "topic"), records.column("topic"))
    return records.set_column(place, records.schema.field(place), topics)


_SILENT = frozenset({"transaction", "commit_time", "position", "catalog", "schema"})
"""What an envelope may have no place for: a record without it is written in the same way."""


def _needed(batch: pa.RecordBatch) -> Mapping[str, Mask]:
    """What a format must carry for each change of a row, as `capabilities.needed` says it, by feature."""
    ops, after_image, before_image = (batch.column(name) for name in ("op", "after_image", "before_image"))
    written_row = pc.not_equal(ops, Operation.DELETE.value)
    catalog, schema, _ = batch.column("table").flatten()
    found = {
        "delete": pc.invert(written_row),
        "keyless": pc.is_null(batch.column("key")),
        "before": is_one_of(before_image, _SHOWN),
        "keys-only": pc.and_(written_row, pc.equal(after_image, Image.NONE.value)),
        "after": pc.and_(written_row, pc.not_equal(after_image, Image.NONE.value)),
        "partial": pc.or_(pc.equal(after_image, Image.PARTIAL.value), pc.equal(before_image, Image.PARTIAL.value)),
        "transaction": pc.is_valid(batch.column("transaction")),
        "commit_time": pc.is_valid(batch.column("commit_time")),
        "position": pc.invert(pc.fill_null(batch.column("arrived"), False)),
        "catalog": pc.is_valid(catalog),
        "schema": pc.is_valid(schema),
    }
    return {feature: as_mask(mask) for feature, mask in found.items()}
