"""The reading kernel: a batch of wire records into changes and rejects. Nothing is kept between batches."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from changeling.envelope import reading
from changeling.envelope.groups import Plain, plain_changes
from changeling.envelope.text_columns import byte_lengths, counts_of
from changeling.formats.format import Format
from changeling.formats.options import ReadOptions
from changeling.model import arrow_layouts, json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.position import encode


@dataclass(frozen=True)
class Decoded:
    """Changes, and the records that could not be decoded: every record of the batch is in one of the two."""

    changes: pa.RecordBatch
    rejects: pa.RecordBatch


class Decoder:
    """Decodes batch after batch with one set of options."""

    def __init__(self, form: Format, options: ReadOptions, *, by_columns: bool = True, templates: bool = False) -> None:
        """With `templates`, `meta` is what the log stores (see `meta_template`), where the format has templates.

        Without `by_columns`, every record is read by itself, which must give the same: tests compare the two.
        """
        self._format = form
        self._source = options.source or form.name
        self._limit = options.record_bytes
        read = form.reader(options)
        self._decode = reading.one_by_one(read, templates)
        self._decode_group = (
            reading.by_columns(read, form.name, self._source, form.before_arrival, templates) if by_columns else None
        )

    def __call__(self, batch: pa.RecordBatch) -> Decoded:
        """Decodes a batch of layout `RECORDS`: records in = decoded records + rejects."""
        with gc_paused():
            suspects = _suspects(batch.column("value"), self._limit)
            plain = self._plain(batch, suspects)
            if plain is None:
                changes, _, reasons = self._one_by_one(batch, suspects)
                return Decoded(changes, arrow_layouts.rejects_batch(batch, reasons))
            if not plain.others:
                return Decoded(plain.changes, arrow_layouts.rejects_batch(batch, {}))
            others = batch.take(pa.array(plain.others, pa.int64()))
            within = {place for place, own in enumerate(plain.others) if own in suspects}
            changes, places, reasons = self._one_by_one(others, within)
            own_places = np.array(plain.others, np.int64)[np.array(places, np.int64)]
            return Decoded(_merged(plain, changes, own_places), arrow_layouts.rejects_batch(others, reasons))

    def _plain(self, batch: pa.RecordBatch, suspects: set[int]) -> Plain | None:
        """The changes of the plain records, which are read by columns."""
        if self._decode_group is None or len(suspects) == batch.num_rows:
            return None
        candidates = np.ones(batch.num_rows, np.bool_)
        candidates[list(suspects)] = False
        return plain_changes(batch, candidates, self._decode_group)

    def _one_by_one(
        self, batch: pa.RecordBatch, suspects: set[int]
    ) -> tuple[pa.RecordBatch, list[int], dict[int, str]]:
        """The changes of each record, the places of their records, and why the rejected ones are rejected."""
        records = arrow_layouts.records(batch)
        changes: list[Change] = []
        places: list[int] = []
        reasons: dict[int, str] = {}
        decode = self._decode
        for place, record in enumerate(records):
            try:
                if place in suspects:
                    _check(record, self._limit)
                found = decode(record)
            except (ValueError, ArithmeticError, RecursionError) as error:
                reasons[place] = reason_of(error)
                continue
            changes.extend(found)
            places.extend([place] * len(found))
        _fill_positions(changes, places, batch, self._format)
        return *self._build(changes, places, batch, reasons), reasons

    def _build(
        self, changes: list[Change], places: list[int], batch: pa.RecordBatch, reasons: dict[int, str]
    ) -> tuple[pa.RecordBatch, list[int]]:
        origin = batch.column("origin")
        try:
            own_origin = origin.take(pa.array(places, pa.int64()))
            return arrow_layouts.changes_batch(changes, own_origin, self._source, self._format.name), places
        except Rejected:
            for place, change in zip(places, changes, strict=True):
                try:
                    arrow_layouts.changes_batch([change], origin.slice(place, 1), self._source, self._format.name)
                except Rejected as error:
                    reasons[place] = str(error)
            good = [(place, change) for place, change in zip(places, changes, strict=True) if place not in reasons]
            return self._build([change for _, change in good], [place for place, _ in good], batch, reasons)


def _merged(plain: Plain, changes: pa.RecordBatch, places: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The changes of the plain records and those of the others, in the order of the records."""
    order = np.argsort(np.concatenate((plain.places, places)), kind="stable")
    return pa.concat_batches([plain.changes, changes]).take(pa.array(order))


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pauses the garbage collector."""
    # A batch creates hundreds of thousands of objects and no cycles: with the collector on, the loop is up to 4x slower.
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _suspects(values: pa.Array, limit: int) -> set[int]:
    """Records to look at closely: not UTF-8, very large, or with more brackets than nesting allows."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return set(range(len(values)))
    # A record shorter than two brackets a level cannot be nested too deep: most records need no count.
    lengths = byte_lengths(values)
    long = np.flatnonzero(lengths > min(2 * json_text.DEPTH_LIMIT, limit))
    brackets = counts_of(values.take(pa.array(long)), b"{[")
    return set(long[(brackets > json_text.DEPTH_LIMIT) | (lengths[long] > limit)].tolist())


def _check(record: Record, limit: int) -> None:
    value = record.value or b""
    if len(value) > limit:
        raise Rejected(f"the record has {len(value):,} bytes; the limit is {limit:,} (record_bytes)")
    try:
        value.decode()
    except UnicodeDecodeError as error:
        hint = "; it may be Avro or Protobuf in Confluent's form, which is not read" if value[:1] == b"\x00" else ""
        raise Rejected(f"not UTF-8: byte {value[error.start]:#04x} at {error.start}{hint}") from None
    # Other texts, such as rows of CSV, may contain any number of brackets that open nothing.
    if value.lstrip()[:1] in (b"{", b"["):
        json_text.check_depth(value)


def reason_of(error: BaseException) -> str:
    """The sentence that the user reads for a record that failed."""
    if isinstance(error, RecursionError):
        return f"nested deeper than {json_text.DEPTH_LIMIT} levels"
    if isinstance(error, ArithmeticError):
        return f"a number is too large or too small to be computed with ({type(error).__name__})"
    if isinstance(error, msgspec.ValidationError):
        return f"not a record of this format: {error}"
    if isinstance(error, msgspec.DecodeError):
        return f"not JSON: {error}"
    return str(error)


def _fill_positions(changes: list[Change], places: Sequence[int], batch: pa.RecordBatch, form: Format) -> None:
    if all(change.position is not None for change in changes):
        return
    places_of_arrival = reading.arrivals(batch.column("origin")).to_pylist()
    before, ordinal = -1, 0
    for change, place in zip(changes, places, strict=True):
        ordinal = ordinal + 1 if place == before else 0
        before = place
        if change.position is None:
            change.arrived = True
            arrival = f"{places_of_arrival[place]}.{encode(ordinal)}" if ordinal else places_of_arrival[place]
            front = form.before_arrival(change.op)
            change.position = f"{encode(*front)}.{arrival}" if front else arrival
