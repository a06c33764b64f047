"""Files of one dialect into changes, and on into files of another: the streaming path of the command line."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.carriers import paths, reading
from changeling.formats.decoding import Decoder
from changeling.formats.encoding import Encoded, Encoder, Numbering, typed
from changeling.formats.format import Format
from changeling.formats.options import ReadOptions, WriteOptions
from changeling.formats.pairing import Pairing
from changeling.model import layout
from changeling.model.errors import ChangelingError, LossError
from changeling.rejects import RejectSink

Progress = Callable[[int], None]
"""Is told how many bytes of the input have been read since it was last told."""


@dataclass
class Report:
    """What a run did; records in = accepted + rejected, always."""

    records: int = 0
    rejected: int = 0
    changes: int = 0
    written: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    relabelled: Counter[str] = field(default_factory=Counter)

    @property
    def accepted(self) -> int:
        """Records that gave changes."""
        return self.records - self.rejected


@dataclass(frozen=True)
class Input:
    """What to read, and what the user said of it."""

    places: Sequence[paths.Place]
    form: Format
    options: ReadOptions
    carrier: reading.Carrier = "plain"
    fail_on_reject: bool = False
    limit: int | None = None
    """Stop after so many changes."""


def changes_of(
    given: Input, rejects: RejectSink, report: Report, progress: Progress, *, show_typed: bool = False
) -> Iterator[pa.RecordBatch]:
    """The changes of an input, batch by batch; rejected records go to the sink and are counted.

    With `show_typed`, values are canonical where the schema is known, and one that does not fit it rejects its record.
    """
    decoder = Decoder(given.form, given.options)
    left = given.limit
    for part in reading.read(given.places, framing=given.form.framing(given.options), carrier=given.carrier):
        progress(part.bytes_read)
        decoded = decoder(part.records)
        changes = decoded.changes
        refused = [part.rejects, decoded.rejects]
        if show_typed:
            changes, unfit = typed(changes)
            refused.append(unfit)
        if left is not None:
            changes = changes.slice(0, left)
            left -= changes.num_rows
        report.records += part.records.num_rows + part.rejects.num_rows
        report.changes += changes.num_rows
        for batch in refused:
            report.rejected += batch.num_rows
            _refuse(batch, given.fail_on_reject, rejects)
        yield changes
        if left == 0:
            return


def _refuse(batch: pa.RecordBatch, fail: bool, rejects: RejectSink) -> None:
    if not batch.num_rows:
        return
    if fail:
        origin = layout.origins(batch)[0]
        raise ChangelingError(f"{origin}: {batch.column('reason')[0].as_py()} (--on-error reject goes on without it)")
    rejects.add(batch)


class Conversion:
    """Writes changes as records of another format, and refuses as a whole where something would be lost."""

    def __init__(self, form: Format, options: WriteOptions, rejects: RejectSink, report: Report) -> None:
        self._form, self._options, self._rejects, self._report = form, options, rejects, report
        self._encoder = Encoder(form, options)
        self._numbering = Numbering()
        self._lost: Counter[str] = Counter()
        self._example: dict[str, str] = {}
        self._tables: set[str] = set()

    def records_of(self, batches: Iterable[pa.RecordBatch], *, halves: bool) -> Iterator[pa.RecordBatch]:
        """The written records; raises `LossError` at the end, naming everything that had no place, with an example each.

        `halves`: the input may hold updates as two records each, which are joined first.
        """
        if halves:
            batches = _paired(batches)
        for batch in batches:
            encoded = self._encoder(batch, self._numbering)
            self._report.dropped += encoded.dropped
            self._report.relabelled += encoded.relabelled
            self._report.written += encoded.records.num_rows
            if not self._lost:
                self._probe(batch, encoded)
            else:
                self._count_losses(encoded.rejects)
            self._count_tables(batch)
            self._numbering = self._numbering.after(batch)
            if not self._lost:
                yield encoded.records
        if self._lost:
            raise LossError(self._explanation())

    def _probe(self, batch: pa.RecordBatch, encoded: Encoded) -> None:
        """Counts what the first refused batch would lose, all of it: a change is refused for one thing at a time."""
        drop = self._options.drop
        self._count_losses(encoded.rejects)
        while found := set(encoded.rejects.column("feature").to_pylist()) - {None} - drop:
            drop = drop | found
            encoder = Encoder(self._form, msgspec.structs.replace(self._options, drop=drop))
            encoded = encoder(batch, self._numbering)
            self._count_losses(encoded.rejects.filter(pc.is_valid(encoded.rejects.column("feature"))))

    def _count_losses(self, rejects: pa.RecordBatch) -> None:
        unfit = []
        reasons, features = rejects.column("reason").to_pylist(), rejects.column("feature").to_pylist()
        for place, (reason, feature, origin) in enumerate(zip(reasons, features, layout.origins(rejects), strict=True)):
            if feature is None:
                unfit.append(place)
            else:
                self._lost[feature] += 1
                self._example.setdefault(feature, f"{reason} ({origin})")
        if unfit:
            self._report.rejected += len(unfit)
            self._rejects.add(rejects.take(pa.array(unfit, pa.int64())))

    def _count_tables(self, batch: pa.RecordBatch) -> None:
        if self._form.names_table or self._options.names_table or self._options.keyed or "table" in self._options.drop:
            return
        self._tables.update(str(table) for table in {change.table for change in layout.changes(batch)} if table)
        if len(self._tables) > 1:
            shown = ", ".join(sorted(self._tables)[:5])
            self._lost["table"] += 1
            self._example["table"] = (
                f"{self._form.name} records do not name their table, and the input has several: {shown}"
            )

    def _explanation(self) -> str:
        lines = [f"converting to {self._form.name} would lose:"]
        for feature, count in self._lost.most_common():
            lines.append(f"  {feature}: {count:,} changes, such as: {self._example[feature]}")
        lines.append(f"Allow it with --drop {','.join(sorted(self._lost))}; nothing was written.")
        return "\n".join(lines)


def _paired(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    pairing = Pairing()
    for batch in batches:
        yield pairing(batch)
    yield pairing.rest()
