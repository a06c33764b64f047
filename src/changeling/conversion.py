"""Changes of one dialect into records of another: the writing half of the command line's streaming path."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.formats.encoding import Encoded, Encoder, Numbering
from changeling.formats.format import Format
from changeling.formats.options import WriteOptions
from changeling.formats.pairing import Pairing
from changeling.model import layout
from changeling.model.errors import LossError
from changeling.reading_changes import Report
from changeling.rejects import RejectSink

Table: TypeAlias = tuple[str | None, ...]
"""A table's catalog, schema and name."""


class Conversion:
    """Writes changes as records of another format, and refuses as a whole where something would be lost."""

    def __init__(self, form: Format, options: WriteOptions, rejects: RejectSink, report: Report) -> None:
        self._form, self._options, self._rejects, self._report = form, options, rejects, report
        self._encoder = Encoder(form, options)
        self._numbering = Numbering()
        self._lost: Counter[str] = Counter()
        self._example: dict[str, str] = {}
        self._topics: dict[str | None, Table] = {}
        self._last_positions: dict[str, str] = {}

    def records_of(self, batches: Iterable[pa.RecordBatch], source: Format) -> Iterator[pa.RecordBatch]:
        """The written records; raises `LossError` at the end, naming everything that had no place, with an example each.

        Updates that `source` tells as two records are joined first, save on the way back into the same dialect.
        """
        if source.halves and source.name != self._form.name:
            batches = _paired(batches, Pairing(lone_as_deletes=True))
        for batch in batches:
            encoded = self._encoder(batch, self._numbering)
            self._report.dropped += encoded.dropped
            self._report.relabelled += encoded.relabelled
            self._report.written += encoded.records.num_rows
            if not self._lost:
                self._probe(batch, encoded)
            else:
                self._count_losses(encoded.rejects)
            self._check_tables(batch, encoded)
            self._check_order(batch, encoded)
            self._numbering = self._numbering.after(batch, encoded)
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
                self._example.setdefault(feature, f"{reason.partition(': ')[2]} ({origin})")
        if unfit:
            self._report.rejected += len(unfit)
            self._rejects.add(self._rejects.with_raw_records(rejects.take(pa.array(unfit, pa.int64()))))

    def _check_tables(self, batch: pa.RecordBatch, encoded: Encoded) -> None:
        """Records that do not name their table must not mix two: only another topic tells them apart."""
        if self._form.names_table or self._options.names_table or "table" in self._options.drop:
            return
        for topic, table in _tables_by_topic(batch, encoded.records if self._options.keyed else None):
            if self._topics.setdefault(topic, table) != table:
                why = f"{self._form.name} records do not name their table, and the input has several"
                names = sorted(".".join(filter(None, each)) for each in (self._topics[topic], table))
                self._lost["table"] += 1
                self._example.setdefault("table", f"{why}: {', '.join(names)}")

    def _check_order(self, batch: pa.RecordBatch, encoded: Encoded) -> None:
        """Where positions are lost, the order of the output stands for them: it must be theirs."""
        if not encoded.dropped["position"] or "order" in self._options.drop:
            return
        for source, position, origin in zip(
            batch.column("source").to_pylist(), batch.column("position").to_pylist(), layout.origins(batch), strict=True
        ):
            if position < self._last_positions.get(source, ""):
                why = "without positions the order of the output counts, and this change comes too late: sort the input first"
                self._lost["order"] += 1
                self._example.setdefault("order", f"{why} ({origin})")
            else:
                self._last_positions[source] = position

    def _explanation(self) -> str:
        lines = [f"converting to {self._form.name} would lose:"]
        for feature, count in self._lost.most_common():
            lines.append(f"  {feature}: {count:,} changes, such as: {self._example[feature]}")
        lines.append(f"Allow it with --drop {','.join(sorted(self._lost))}; nothing was written.")
        return "\n".join(lines)


def _tables_by_topic(batch: pa.RecordBatch, records: pa.RecordBatch | None) -> set[tuple[str | None, Table]]:
    """The tables of a batch, each with the topics that its records are on; without records, with none."""
    rows = batch.select(["origin", "table"]).to_pylist()
    tables: dict[tuple[Any, ...], Table] = {_place(row): tuple(row["table"].values()) for row in rows if row["table"]}
    if records is None:
        return {(None, table) for table in tables.values()}
    topics = [(row["topic"], tables.get(_place(row))) for row in records.select(["origin", "topic"]).to_pylist()]
    return {(topic, table) for topic, table in topics if table is not None}


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row["origin"].values())


def _paired(batches: Iterable[pa.RecordBatch], pairing: Pairing) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pairing(batch)
    yield pairing.rest()
