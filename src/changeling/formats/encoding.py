"""The writing kernel: a batch of changes into wire records. Running numbers are passed in; none is kept here."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope import writing
from changeling.envelope.positions import positions
from changeling.envelope.text_columns import Mask, as_mask
from changeling.formats import registry
from changeling.formats.capabilities import FEATURES, LABELS, lacking
from changeling.formats.decoding import gc_paused, reason_of
from changeling.formats.format import Counts, Format, LeftOut, Outgoing
from changeling.formats.key_changes import check_old_key
from changeling.formats.meta_template import with_whole_meta
from changeling.formats.options import WriteOptions
from changeling.formats.plain_writing import PlainRecords, PlainWriter
from changeling.formats.transaction_progress import (
    CountedTransactions,
    TransactionProgress,
    Transactions,
    beside,
    depend_on_others,
)
from changeling.formats.transcode import Transcoder
from changeling.formats.type_table import CANONICAL
from changeling.model import arrow_layouts, json_text, position
from changeling.model.change import Change, Record
from changeling.model.errors import CannotCarry
from changeling.model.line import lines
from changeling.model.operation import Operation

_COUNTED = {
    "insert": (Operation.INSERT, Operation.READ),
    "update": (Operation.UPDATE, Operation.UPSERT),
    "delete": (Operation.DELETE,),
    "replace": (Operation.REPLACE,),
}


class Placed(NamedTuple):
    """The position that the record of a change got; of several records, that of the last."""

    parts: tuple[int, ...]
    own: bool
    """It is the change's own."""


@dataclass(frozen=True)
class Encoded:
    """Records, the changes that the format cannot carry, and what was left out because the user allowed it."""

    records: pa.RecordBatch
    rejects: pa.RecordBatch
    dropped: Counter[str]
    """How many changes were written, or left out, without each feature."""
    relabelled: Counter[str]
    """Writes under the nearest operation that the format has, such as an upsert as an update: the row is the same."""
    as_text: int
    """Changes with values of unknown type that became text, in a format that has nothing else."""
    transactions: Transactions = field(default_factory=Transactions)
    """The transactions of the output after the batch."""
    places: Sequence[int] = ()
    """For each record, the place of its change in the batch."""
    placed: Mapping[int, Placed] = field(default_factory=dict)
    """The positions that records got, by the place of their change in the batch."""
    unplaced: Set[int] = frozenset()
    """The places of the changes that were written without their position."""


@dataclass(frozen=True)
class Numbering:
    """The state of an output: the numbers that the next batch continues from."""

    number: int = 0
    counts: Counts = field(default_factory=Counts)
    transactions: Transactions = field(default_factory=Transactions)
    progress: Sequence[TransactionProgress] | None = None
    """The progress of the transaction of each change, where the batch supplies it."""

    def after(self, batch: pa.RecordBatch, encoded: Encoded) -> "Numbering":
        """The state of the output after this batch of changes."""
        return Numbering(self.number + batch.num_rows, self.counts_after(batch), encoded.transactions.after())

    def counts_after(self, batch: pa.RecordBatch) -> Counts:
        """The totals by kind, this batch of changes included."""
        totals = {name: pc.sum(_is_one_of(batch, ops)).as_py() or 0 for name, ops in _COUNTED.items()}
        return Counts(**{name: getattr(self.counts, name) + total for name, total in totals.items()})

    def numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the running numbers of its changes, and the totals by kind, each itself included."""
        numbers = pa.array(np.arange(batch.num_rows) + self.number + 1)
        totals = [
            pa.array(np.cumsum(_is_one_of(batch, ops).to_numpy()) + getattr(self.counts, name))
            for name, ops in _COUNTED.items()
        ]
        counts = pa.StructArray.from_arrays(totals, list(_COUNTED))
        return batch.append_column("number", numbers).append_column("counts", counts)


def _is_one_of(batch: pa.RecordBatch, operations: tuple[Operation, ...]) -> pa.Array:
    wanted = pa.array([operation.value for operation in operations], pa.string())
    return pc.is_in(batch.column("op"), value_set=wanted).cast(pa.int64())


def _is_own(placed: tuple[int, ...], out: Outgoing, change: Change) -> bool:
    """Whether a record got the position that its change has."""
    if change.arrived or change.position is None:
        return False
    parts = position.decode(change.position)
    return placed[: len(parts) - 1] == parts[:-1] if out.halves else placed == parts


@dataclass
class _OneByOne:
    """What became of the changes of a batch that were written one by one; places are those in the batch."""

    records: list[Record] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """The place of the change of each record."""
    rejected: dict[int, tuple[str, str | None]] = field(default_factory=dict)
    """Reasons, and the features that the format cannot carry, by the places of changes."""
    dropped: Counter[str] = field(default_factory=Counter)
    as_text: int = 0
    placed: dict[int, Placed] = field(default_factory=dict)
    unplaced: set[int] = field(default_factory=set)

    def add(self, place: int, out: Outgoing, change: Change, made: list[Record]) -> None:
        """Adds what was written of a change."""
        self.dropped.update(out.dropped)
        if "position" in out.dropped:
            self.unplaced.add(place)
        if out.placed is not None:
            self.placed[place] = Placed(out.placed, _is_own(out.placed, out, change))
        self.records.extend(made)
        self.places.extend([place] * len(made))

    def last_before(self, place: int, plain: PlainRecords | None) -> Record | None:
        """The last record of the changes before a place, as far as its key and whether it is a tombstone."""
        if plain is not None:
            found = int(np.searchsorted(plain.written.places, place)) - 1
            if found >= 0 and (not self.places or plain.written.places[found] > self.places[-1]):
                batch = plain.written.records
                return Record(batch.column("value")[found].as_py(), batch.column("key")[found].as_py())
        return self.records[-1] if self.records else None


class Encoder:
    """Encodes batch after batch with one set of options."""

    def __init__(self, form: Format, options: WriteOptions, *, by_columns: bool = True) -> None:
        """Without `by_columns`, every change is written by itself, which must give the same: tests compare the two."""
        self._format, self._drop, self._keyed = form, options.drop, options.keyed
        self._names_topic = options.names_topic
        write = form.writer(options)
        self._encode = writing.one_by_one(write)
        self._transcoders: dict[str, Transcoder | None] = {form.name: None}
        self._halves: dict[str, bool] = {}
        self._write_plain = PlainWriter(form, options, writing.by_columns(write)) if by_columns else None

    def __call__(self, batch: pa.RecordBatch, numbering: Numbering | None = None) -> Encoded:
        """Encodes a batch of layout `CHANGES`; every change is written, in the rejects, or counted as dropped."""
        with gc_paused():
            return self._batch(with_whole_meta(batch), numbering or Numbering())

    def _batch(self, batch: pa.RecordBatch, numbering: Numbering) -> Encoded:
        batch = numbering.numbered(batch)
        plain = self._plain(batch, numbering)
        counted = None
        if self._format.counts_transactions:
            known = None if plain is None or numbering.progress is not None else plain.written.plain
            counted = CountedTransactions(numbering.transactions, batch, known)
        others = self._one_by_one(batch, plain, numbering.progress, counted)
        origin = batch.column("origin").take(pa.array(others.places, pa.int64()))
        written, places = arrow_layouts.records_batch(others.records, origin), others.places
        if plain is not None:
            written, places = _merged(plain, written, places)
        native = pc.equal(batch.column("encoding"), self._format.name)
        if not self._names_topic:
            written = _on_their_topics(written, native.take(pa.array(places, pa.int64())))
        return Encoded(
            written,
            _rejects(batch, others.rejected),
            others.dropped if plain is None else plain.dropped + others.dropped,
            self._relabelled(batch, as_mask(native), places),
            others.as_text + (0 if plain is None else plain.as_text),
            numbering.transactions.page() if counted is None else counted.after_all(),
            places,
            others.placed if plain is None else _placed(plain, batch) | others.placed,
            others.unplaced if plain is None else plain.unplaced | others.unplaced,
        )

    def _one_by_one(
        self,
        batch: pa.RecordBatch,
        plain: PlainRecords | None,
        supplied: Sequence[TransactionProgress] | None,
        counted: CountedTransactions | None,
    ) -> _OneByOne:
        """Writes the changes that were not written by columns, in order."""
        found = _OneByOne()
        for place, out, encoding, lacks in self._outgoing(batch, plain):
            if counted is not None:
                out.progress = counted.before(place) if supplied is None else supplied[place]
            change = out.change
            made: list[Record] = []
            try:
                made = self._one(out, encoding, lacks)
            except LeftOut:
                found.dropped.update(out.dropped)
            except CannotCarry as lack:
                found.rejected[place] = (f"{self._format.name} cannot carry {lack.feature}: {lack.why}", lack.feature)
            except (ValueError, ArithmeticError, RecursionError) as error:
                found.rejected[place] = (reason_of(error), None)
            else:
                if not out.native and _is_tombstone(made) and _repeats(made[0], found.last_before(place, plain)):
                    made = []
                found.add(place, out, change, made)
                if made and not out.native and self._format.types.all_text and change.schema is None:
                    found.as_text += _became_text(change, out.change)
            if counted is not None:
                counted.add(place, out.progress, sum(record.value is not None for record in made))
        return found

    def _outgoing(
        self, batch: pa.RecordBatch, plain: PlainRecords | None
    ) -> Iterator[tuple[int, Outgoing, str, list[str]]]:
        """The changes that were not written by columns: their places, encodings, and what the format lacks for them."""
        count = batch.num_rows
        places = np.arange(count) if plain is None else np.flatnonzero(~plain.written.plain)
        rest = batch if len(places) == count else batch.take(pa.array(places))
        columns = zip(
            places.tolist(),
            arrow_layouts.changes(rest),
            self._lacking(rest),
            *(rest.column(name).to_pylist() for name in ("source", "encoding", "number")),
            zip(*(total.to_pylist() for total in rest.column("counts").flatten()), strict=True),
            strict=True,
        )
        for place, change, lacks, source, encoding, number, counts in columns:
            out = Outgoing(
                change=change,
                native=encoding == self._format.name,
                source=source,
                running=number,
                counts=Counts(*counts),
                arrived=change.arrived,
                drop=self._drop,
                dropped=set(),
                halves=self._has_halves(encoding),
            )
            yield place, out, encoding, lacks

    def _plain(self, batch: pa.RecordBatch, numbering: Numbering) -> PlainRecords | None:
        """What is written by columns: changes of one encoding, whose places in their transactions depend on no others."""
        write_plain = self._write_plain
        if write_plain is None or not batch.num_rows or len(encodings := batch.column("encoding").unique()) > 1:
            return None
        encoding = encodings[0].as_py()
        if encoding != self._format.name and self._has_halves(encoding):
            return None
        transcoder = self._transcoder(encoding)
        if not self._format.counts_transactions:
            return write_plain(batch, transcoder, np.zeros(batch.num_rows, np.bool_))
        supplied = numbering.progress
        if supplied is None:
            waiting = depend_on_others(batch, numbering.transactions)
        else:
            waiting = np.array([one.moved > 0 for one in supplied], np.bool_)
        plain = write_plain(batch, transcoder, waiting)
        if plain is None or supplied is not None:
            return plain
        more = beside(batch, ~plain.written.plain) & plain.written.plain
        return write_plain(batch, transcoder, waiting | more) if more.any() else plain

    def _has_halves(self, encoding: str) -> bool:
        if encoding not in self._halves:
            self._halves[encoding] = encoding != "canonical" and registry.get(encoding).halves
        return self._halves[encoding]

    def _one(self, out: Outgoing, encoding: str, lacks: Sequence[str]) -> list[Record]:
        if not out.native:
            for feature in lacks:
                out.lose(feature, FEATURES[feature])
            check_old_key(out)
        transcoder = self._transcoder(encoding)
        if transcoder is not None:
            out.change = transcoder(out.change, out.lose)
        made = self._encode(out)
        if not self._keyed and any(record.value is None for record in made):
            out.lose("message", "a tombstone is a message without a value, which a plain file cannot contain")
        return list(made)

    def _lacking(self, batch: pa.RecordBatch) -> list[list[str]]:
        """What each of these changes needs, and the format does not carry; those of the format itself need nothing."""
        if not pc.any(pc.not_equal(batch.column("encoding"), self._format.name)).as_py():
            return [[]] * batch.num_rows
        masks = lacking(batch, self._format.carries)
        return [[feature for feature, mask in masks.items() if mask[row]] for row in range(batch.num_rows)]

    def _relabelled(self, batch: pa.RecordBatch, native: Mask, places: Sequence[int]) -> Counter[str]:
        """The changes at these places that were written under a label of another operation."""
        written = np.zeros(batch.num_rows, np.bool_)
        written[places] = True
        counts = pc.value_counts(batch.column("op").filter(pa.array(written & ~native))).to_pylist()
        labels = LABELS - self._format.carries
        return Counter({row["values"]: row["counts"] for row in counts if row["values"] in labels})

    def _transcoder(self, encoding: str) -> Transcoder | None:
        if encoding not in self._transcoders:
            source = CANONICAL if encoding == "canonical" else registry.get(encoding).types
            self._transcoders[encoding] = Transcoder(source, self._format.types)
        return self._transcoders[encoding]


def _placed(plain: PlainRecords, batch: pa.RecordBatch) -> dict[int, Placed]:
    """The positions of the records that were written by columns."""
    found = plain.written.positions
    if not found:
        return {}
    places = pa.array(plain.written.places)
    given = pc.if_else(batch.column("arrived"), None, batch.column("position")).take(places)
    own = pc.fill_null(pc.equal(positions(*found), given), False).to_pylist()
    parts = zip(*(part.to_pylist() for part in found), strict=True)
    return {place: Placed(*one) for place, *one in zip(places.to_pylist(), parts, own, strict=True)}


def _merged(plain: PlainRecords, others: pa.RecordBatch, places: list[int]) -> tuple[pa.RecordBatch, list[int]]:
    """All records in the order of their changes, and the places of these."""
    if not places:
        return plain.written.records, plain.written.places.tolist()
    together = np.concatenate((plain.written.places, np.array(places, np.int64)))
    order = np.argsort(together, kind="stable")
    return pa.concat_batches([plain.written.records, others]).take(pa.array(order)), together[order].tolist()


def _became_text(before: Change, after: Change) -> bool:
    """Whether a value of a change was something else before it was converted into a format of texts."""
    images = ((before.before, after.before), (before.after, after.after))
    return any(was is not None and json_text.members(was) != json_text.members(now or b"{}") for was, now in images)


def _is_tombstone(made: Sequence[Record]) -> bool:
    """Whether a change is only a tombstone."""
    return len(made) == 1 and made[0].value is None


def _repeats(tombstone: Record, before: Record | None) -> bool:
    """Whether the delete before was written with its tombstone already."""
    return before is not None and before.value is None and before.key == tombstone.key


def _on_their_topics(records: pa.RecordBatch, native: pa.Array) -> pa.RecordBatch:
    """Records of this dialect on the topics that they were read from, whatever their dialect would call them."""
    place, topics = records.schema.get_field_index("topic"), records.column("topic")
    own = pc.if_else(native, pc.struct_field(records.column("origin"), "topic"), None)
    return records.set_column(place, records.schema.field(place), pc.coalesce(own, topics))


def typed(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The changes with canonical values where their schema is known, and rejects for values that do not fit it."""
    changes: list[Change] = []
    places: list[int] = []
    rejected: dict[int, tuple[str, str | None]] = {}
    transcoders = {
        name: Transcoder(registry.get(name).types, CANONICAL)
        for name in pc.unique(batch.column("encoding")).to_pylist()
    }
    for place, (change, encoding) in enumerate(
        zip(arrow_layouts.changes(batch), batch.column("encoding").to_pylist(), strict=True)
    ):
        try:
            changes.append(transcoders[encoding](change) if change.schema else change)
        except ValueError as error:
            rejected[place] = (reason_of(error), None)
        else:
            places.append(place)
    kept = batch.take(pa.array(places, pa.int64()))
    for name in ("key", "before", "after"):
        column = pa.array([getattr(change, name) for change in changes], pa.string())
        kept = kept.set_column(kept.schema.get_field_index(name), arrow_layouts.CHANGES.field(name), column)
    known = pc.is_valid(kept.column("schema"))
    encoding_column = pc.if_else(known, pa.scalar("canonical"), kept.column("encoding"))
    kept = kept.set_column(
        kept.schema.get_field_index("encoding"), arrow_layouts.CHANGES.field("encoding"), encoding_column
    )
    return kept, _rejects(batch, rejected)


def _rejects(batch: pa.RecordBatch, rejected: dict[int, tuple[str, str | None]]) -> pa.RecordBatch:
    """The changes at these places as lines, with the reason and the feature of each."""
    rows = batch.take(pa.array(list(rejected), pa.int64())) if rejected else batch.slice(0, 0)
    records = arrow_layouts.records_batch([Record(line) for line in lines(rows)], rows.column("origin"))
    reasons = dict(enumerate(reason for reason, _ in rejected.values()))
    return arrow_layouts.rejects_batch(records, reasons, [feature for _, feature in rejected.values()])
