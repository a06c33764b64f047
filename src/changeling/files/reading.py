"""Reads wire records from files into Arrow batches; what is not a record becomes a reject with its reason."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from changeling.files import framing as frames
from changeling.files import kcat
from changeling.files.framing import Block, Oversized, RawRecord
from changeling.files.paths import STDIN, FileRef, open_input
from changeling.formats.framing import HEADER, CsvRows, Framing, JsonOrCsv, JsonValues
from changeling.model import arrow_layouts
from changeling.model.change import Record
from changeling.model.errors import Rejected
from changeling.model.json_text import SIZE_LIMIT

Carrier: TypeAlias = Literal["plain", "kcat"]

_SAMPLED = 100

BATCH_ROWS, BATCH_BYTES = 8_000, 8 * 1024 * 1024
"""Measured: larger batches are not faster, and 50,000 records at once, as objects, take a gigabyte."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records and rejects, in the layouts `RECORDS` and `REJECTS`, and the bytes read from storage since the last batch."""

    records: pa.RecordBatch
    rejects: pa.RecordBatch
    bytes_read: int


def read(
    files: Sequence[FileRef],
    *,
    framing: Framing,
    carrier: Carrier = "plain",
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
    size_limit: int = SIZE_LIMIT,
) -> Iterator[Batch]:
    """All records of all files, in order.

    A batch has at most `batch_rows` rows, and values of at most `batch_bytes` unless one alone is larger. Origins number the
    files (`ordinal`) and, in each, what was found (`record`), records and rejects alike; with kcat they contain topic, partition
    and offset, too. Rejected are records over the size limit, lines that are not messages, and what cannot be decompressed.
    With kcat, files contain JSON, whatever the framing of the dialect is. The first row of a CSV file with a header is no
    record: each record of the file has it as the record header `HEADER`.
    """
    pending = _Pending(batch_rows, batch_bytes)
    for ordinal, file in enumerate(files):
        number = consumed = 0
        with open_input(file) as source:
            stream, style = frames.detect_framing(source, JsonValues() if carrier == "kcat" else framing)
            header: bytes | None = None
            for block in frames.blocks(stream, style, limit=size_limit):
                if isinstance(style, CsvRows) and number == 0 and header is None:
                    header, block = _without_header(block, style)
                parts = _split(block, batch_rows, batch_bytes)
                pending.bytes_read += source.consumed - consumed
                consumed = source.consumed
                for part in parts:
                    made = _kcat_part if carrier == "kcat" else _plain_part
                    records, rejects = made(part, file.path, ordinal, number, size_limit)
                    yield from pending.add(records if header is None else _with_header(records, header), rejects)
                    number += len(part)
            pending.bytes_read += source.consumed - consumed
            if number == 0 and header is not None and b"\r" in header:
                reason = "the rows end with CR alone, so that the file is one line: let them end with LF or CR LF"
                yield from pending.add(
                    _no_records(), _rejects([reason], [header], _origin(file.path, ordinal, np.array([0])))
                )
            if source.damage is not None:
                where = _origin(file.path, ordinal, np.array([number]))
                rejects = _rejects([source.damage.reason], [source.damage.raw], where)
                yield from pending.add(_no_records(), rejects)
    yield from pending.flush()


def first_records(files: Sequence[FileRef], carrier: Carrier, style: CsvRows) -> list[Record]:
    """Up to a hundred records from the start of an input, JSON or rows of CSV, of which nothing is consumed.

    Of standard input only what one read gives is seen; its last record may be cut off, and is left out unless it is the only one.
    """
    peeked = [replace(file, is_peeked=True) for file in files]
    for batch in read(peeked, framing=JsonOrCsv(JsonValues(), style), carrier=carrier, batch_rows=_SAMPLED):
        if batch.records.num_rows:
            found = arrow_layouts.records(batch.records)
            return found[:-1] if files[0].path == STDIN and 1 < len(found) < _SAMPLED else found
    return []


def _without_header(block: Block, style: CsvRows) -> tuple[bytes | None, Block]:
    """The header of a file and the other rows of its first block; for a header over the size limit, its kept bytes."""
    first = block[0] if isinstance(block, list) else block[0].as_py()
    first = first.head if isinstance(first, Oversized) else first
    return (first, block[1:]) if style.header or first == style.usual_header else (None, block)


def _with_header(records: pa.RecordBatch, header: bytes) -> pa.RecordBatch:
    one = pa.array([[{"name": HEADER, "value": header}]], arrow_layouts.HEADERS)
    column = one.take(pa.array(np.zeros(records.num_rows, np.int32)))
    return records.set_column(records.schema.get_field_index("headers"), arrow_layouts.RECORDS.field("headers"), column)


class _Pending:
    """Parts that are collected into one batch: many small files must not become many small batches."""

    def __init__(self, rows: int, size: int) -> None:
        self._most_rows, self._most_bytes = rows, size
        self._records: list[pa.RecordBatch] = []
        self._rejects: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self.bytes_read = 0

    def add(self, records: pa.RecordBatch, rejects: pa.RecordBatch) -> Iterator[Batch]:
        rows, size = records.num_rows + rejects.num_rows, _value_bytes(records.column("value"))
        if self._rows + rows > self._most_rows or self._bytes + size > self._most_bytes:
            yield from self.flush()
        if records.num_rows:
            self._records.append(records)
        if rejects.num_rows:
            self._rejects.append(rejects)
        self._rows += rows
        self._bytes += size

    def flush(self) -> Iterator[Batch]:
        if self._rows or self.bytes_read:
            yield Batch(
                _joined(self._records, arrow_layouts.RECORDS),
                _joined(self._rejects, arrow_layouts.REJECTS),
                self.bytes_read,
            )
        self._records, self._rejects = [], []
        self._rows = self._bytes = self.bytes_read = 0


def _value_bytes(values: pa.Array) -> int:
    if not len(values):
        return 0
    offsets = np.frombuffer(values.buffers()[1], np.int32)
    return int(offsets[values.offset + len(values)] - offsets[values.offset])


def _joined(parts: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    return pa.concat_batches(parts) if parts else pa.RecordBatch.from_pylist([], schema)


def _no_records() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], arrow_layouts.RECORDS)


def _split(block: Block, rows: int, size: int) -> Iterator[Block]:
    """Parts of a block, each small enough for a batch."""
    if isinstance(block, list):
        ends = np.cumsum([0 if isinstance(raw_record, Oversized) else len(raw_record) for raw_record in block])
    else:
        ends = np.frombuffer(block.buffers()[1], np.int32)[block.offset + 1 : block.offset + len(block) + 1]
    start, before = 0, 0
    while start < len(block):
        stop = int(np.searchsorted(ends, before + size, side="right"))
        stop = min(max(stop, start + 1), start + rows)
        yield block[start:stop]
        start, before = stop, int(ends[stop - 1])


def _plain_part(part: Block, file: str, ordinal: int, first: int, limit: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    numbers = np.arange(first, first + len(part))
    if not isinstance(part, list):
        return _records(part, _origin(file, ordinal, numbers)), _rejects([], [], _origin(file, ordinal, numbers[:0]))
    large = np.array([isinstance(raw_record, Oversized) for raw_record in part], bool)
    values = pa.array([raw_record for raw_record in part if isinstance(raw_record, bytes)], pa.binary())
    return (
        _records(values, _origin(file, ordinal, numbers[~large])),
        _oversized(
            [raw_record for raw_record in part if isinstance(raw_record, Oversized)],
            limit,
            _origin(file, ordinal, numbers[large]),
        ),
    )


def _kcat_part(part: Block, file: str, ordinal: int, first: int, limit: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    found: list[RawRecord] = part if isinstance(part, list) else part.to_pylist()
    good: list[int] = []
    bad: list[int] = []
    messages: list[kcat.Message] = []
    reasons: list[str] = []
    raw: list[bytes] = []
    for number, raw_record in enumerate(found, first):
        try:
            if isinstance(raw_record, Oversized):
                raise Rejected(_too_large(raw_record, limit))
            messages.append(kcat.parse(raw_record))
            good.append(number)
        except Rejected as error:
            bad.append(number)
            reasons.append(str(error))
            raw.append(raw_record.head if isinstance(raw_record, Oversized) else raw_record)
    records: list[Record] = [message.record for message in messages]
    origin = _origin(
        file,
        ordinal,
        np.array(good, np.int64),
        topic=pa.array([record.topic for record in records], pa.string()),
        partition=pa.array([message.partition for message in messages], pa.int32()),
        offset=pa.array([message.offset for message in messages], pa.int64()),
    )
    rejects = _rejects(reasons, raw, _origin(file, ordinal, np.array(bad, np.int64)))
    return arrow_layouts.records_batch(records, origin), rejects


def _origin(file: str, ordinal: int, numbers: np.ndarray, **kafka: pa.Array) -> pa.Array:
    count = len(numbers)
    columns = {
        "file": pa.repeat(pa.scalar(file, pa.string()), count),
        "ordinal": pa.repeat(pa.scalar(ordinal, pa.int64()), count),
        "record": pa.array(numbers, pa.int64()),
        **kafka,
    }
    fields = list(arrow_layouts.ORIGIN)
    arrays = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in fields]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _records(values: pa.Array, origin: pa.Array) -> pa.RecordBatch:
    known = {"value": values, "origin": origin}
    columns = [known.get(field.name, pa.nulls(len(values), field.type)) for field in arrow_layouts.RECORDS]
    return pa.record_batch(columns, schema=arrow_layouts.RECORDS)


def _rejects(reasons: list[str], raw: list[bytes], origin: pa.Array) -> pa.RecordBatch:
    known = {"reason": pa.array(reasons, pa.string()), "raw": pa.array(raw, pa.binary()), "origin": origin}
    columns = [known.get(field.name, pa.nulls(len(reasons), field.type)) for field in arrow_layouts.REJECTS]
    return pa.record_batch(columns, schema=arrow_layouts.REJECTS)


def _oversized(found: list[Oversized], limit: int, origin: pa.Array) -> pa.RecordBatch:
    return _rejects(
        [_too_large(raw_record, limit) for raw_record in found], [raw_record.head for raw_record in found], origin
    )


def _too_large(raw_record: Oversized, limit: int) -> str:
    return (
        f"the record has {raw_record.length:,} bytes, over the limit of {limit:,} (record_bytes); "
        f"the first {len(raw_record.head):,} are kept"
    )
