"""Decodes files of any dialect, batch by batch: the reading half of the command line's streaming path."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from changeling.files import paths, reading
from changeling.formats.decoding import Decoder
from changeling.formats.encoding import Encoded, typed
from changeling.formats.format import Format
from changeling.formats.options import ReadOptions
from changeling.model import arrow_layouts
from changeling.model.errors import ChangelingError
from changeling.model.printable import printable
from changeling.rejects import RejectSink

Progress = Callable[[int], None]
"""Called with the number of bytes of the input that were read since the last call."""


def silent(amount: int) -> None:
    """Shows no progress."""


@dataclass
class ConversionReport:
    """The counts of a run; records in = accepted + rejected, always."""

    records: int = 0
    rejected: int = 0
    changes: int = 0
    written: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    relabelled: Counter[str] = field(default_factory=Counter)
    as_text: int = 0
    """Changes with values of unknown type that became text."""

    @property
    def accepted(self) -> int:
        """Records that were decoded."""
        return self.records - self.rejected

    def add_read(self, records: int, changes: int, rejected: int) -> None:
        """Counts a batch of records, and what became of them."""
        self.records += records
        self.changes += changes
        self.rejected += rejected

    def add_written(self, encoded: Encoded) -> None:
        """Counts a batch of changes that were written, and those that could not be."""
        self.written += encoded.records.num_rows
        self.rejected += encoded.rejects.num_rows
        self.relabelled += encoded.relabelled
        self.as_text += encoded.as_text


@dataclass(frozen=True)
class Input:
    """The input, and the user's options for it."""

    places: Sequence[paths.FileRef]
    form: Format
    options: ReadOptions
    carrier: reading.Carrier = "plain"
    fail_on_reject: bool = False
    limit: int | None = None
    """Stop after this many changes."""


def changes_of(
    given: Input,
    rejects: RejectSink,
    report: ConversionReport,
    progress: Progress = silent,
    *,
    show_typed: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The changes of an input, batch by batch; rejected records go to the sink and are counted.

    With `show_typed`, values are canonical where the schema is known, and one that does not fit it rejects its record.
    """
    decoder = Decoder(given.form, given.options)
    left = given.limit
    for part in reading.read(
        given.places,
        framing=given.form.framing(given.options),
        carrier=given.carrier,
        size_limit=given.options.record_bytes,
    ):
        progress(part.bytes_read)
        rejects.remember(part.records)
        decoded = decoder(part.records)
        changes = decoded.changes
        refused = [part.rejects, decoded.rejects]
        if show_typed:
            changes, unfit = typed(changes)
            refused.append(rejects.with_raw_records(unfit))
        records = part.records.num_rows + part.rejects.num_rows
        if left is not None and changes.num_rows >= left:
            changes = changes.slice(0, _complete(changes, left) if given.form.halves else left)
            last = _places(changes)[-1] if left else (-1, -1)
            refused = [
                batch.filter(pa.array([place <= last for place in _places(batch)], pa.bool_())) for batch in refused
            ]
            records = len({*_places(changes)}) + sum(batch.num_rows for batch in refused)
        if left is not None:
            left = max(0, left - changes.num_rows)
        report.add_read(records, changes.num_rows, sum(batch.num_rows for batch in refused))
        for batch in refused:
            _refuse(batch, given.fail_on_reject, rejects)
        yield changes
        if left == 0:
            return


def _complete(changes: pa.RecordBatch, limit: int) -> int:
    """How many changes to take without splitting an update: its halves differ in the last part of the position."""
    events = [position.rpartition(".")[0] for position in changes.column("position").to_pylist()]
    while 0 < limit < len(events) and events[limit] == events[limit - 1]:
        limit += 1
    return limit


def _places(batch: pa.RecordBatch) -> list[tuple[int, int]]:
    """Which file and which record each row comes from."""
    return [(origin.ordinal or 0, origin.record or 0) for origin in arrow_layouts.origins(batch)]


def _refuse(batch: pa.RecordBatch, fail: bool, rejects: RejectSink) -> None:
    if not batch.num_rows:
        return
    if fail:
        origin = arrow_layouts.origins(batch)[0]
        said = printable(f"{origin}: {batch.column('reason')[0].as_py()}")
        raise ChangelingError(f"{said} (--on-error reject continues without it)")
    rejects.add(batch)
