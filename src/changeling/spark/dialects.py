"""Decode and encode on Spark: the kernels of `formats`, run in the tasks over frames of records or changes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from changeling.formats import registry
from changeling.formats.decoding import Decoder
from changeling.formats.format import read_options, write_options
from changeling.formats.options import ReadOptions, WriteOptions
from changeling.model import arrow_layouts
from changeling.spark.adapter import run
from changeling.spark.frames import OriginFiller, numbered_changes, wire_records
from changeling.spark.numbering import NumberedEncoder
from changeling.spark.rows_and_rejects import Shows


class Decoded(NamedTuple):
    """Changes, and the records that could not be decoded. Each frame runs the kernel when it is used: see `decode_both`."""

    changes: DataFrame
    rejects: DataFrame


class Encoded(NamedTuple):
    """Wire records, and the changes that the format cannot carry. Each frame runs the kernel: see `encode_both`."""

    records: DataFrame
    rejects: DataFrame


def decode(frame: DataFrame, format: str, **options: Any) -> Decoded:
    """Decodes a frame of wire records, batch or streaming, into changes and rejects.

    Only the column `value` is required; the frames of Spark's Kafka source are accepted as they are (see
    `frames.wire_records`). Options are those of `changeling.decode`.
    """
    return Decoded(*(_decoded(frame, format, options, part) for part in (Shows.ROWS, Shows.REJECTS)))


def decode_both(frame: DataFrame, format: str, **options: Any) -> DataFrame:
    """Changes and rejects in one frame and one pass: the columns of a change and `reject`, which is null in changes.

    For callers that use both, such as a streaming `foreachBatch`: persist it, then separate the two with `rows_and_rejects.split`.
    """
    return _decoded(frame, format, options, Shows.BOTH)


def encode(frame: DataFrame, format: str, **options: Any) -> Encoded:
    """Encodes a frame of changes, batch or streaming, into wire records and rejects; see `changeling.encode`.

    Formats that number what they write (or count it by kind, or by transaction) start at 1 in each partition: Spark's tasks
    know nothing of each other. For numbers that run through all partitions, the frame supplies them, in the columns `number`
    (from 1), `counts` (a struct of `insert`, `update`, `delete`, `replace`: running totals, this change included) and `standing`
    (a struct of `ordinal`, `events`, `moved`: what precedes the change in its transaction, see `formats.transaction_progress`).
    """
    return Encoded(*(_encoded(frame, format, options, part) for part in (Shows.ROWS, Shows.REJECTS)))


def encode_both(frame: DataFrame, format: str, **options: Any) -> DataFrame:
    """Records and rejects in one frame and one pass, as `decode_both` gives changes."""
    return _encoded(frame, format, options, Shows.BOTH)


def _decoded(frame: DataFrame, format: str, options: dict[str, Any], part: Shows) -> DataFrame:
    kernel = DecodeKernel(format, read_options(registry.get(format), options), part)
    return run(wire_records(frame), kernel, part.layout(arrow_layouts.CHANGES))


def _encoded(frame: DataFrame, format: str, options: dict[str, Any], part: Shows) -> DataFrame:
    kernel = EncodeKernel(format, write_options(registry.get(format), options), part)
    return run(numbered_changes(frame), kernel, part.layout(arrow_layouts.RECORDS))


@dataclass(frozen=True)
class DecodeKernel:
    """Decodes batches of layout `RECORDS`."""

    format: str
    options: ReadOptions
    part: Shows

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One output batch for each input batch."""
        decoder = Decoder(registry.get(self.format), self.options)
        fill_origins = OriginFiller()
        for batch in batches:
            decoded = decoder(fill_origins(arrow_layouts.conform(batch, arrow_layouts.RECORDS)))
            yield self.part.of(decoded.changes, decoded.rejects)


@dataclass(frozen=True)
class EncodeKernel:
    """Encodes batches of layout `CHANGES`, with numbers or without."""

    format: str
    options: WriteOptions
    part: Shows

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One output batch or more for each input batch, in order."""
        encoder = NumberedEncoder(registry.get(self.format), self.options)
        for batch in batches:
            for encoded in encoder(batch):
                yield self.part.of(encoded.records, encoded.rejects)
