"""Turns changes of one dialect into records of another: the writing half of the command line's streaming path."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec
import pyarrow as pa

from changeling.files.writing import headers_of, two_headers
from changeling.formats.encoding import Encoded, Encoder, Numbering
from changeling.formats.format import Format
from changeling.formats.options import WriteOptions
from changeling.formats.pairing import Pairing
from changeling.losses import Losses, OutputOrder
from changeling.model import arrow_layouts
from changeling.model.errors import LossError
from changeling.named_old_keys import drop_redundant_old_keys
from changeling.reading_changes import ConversionReport
from changeling.rejects import RejectSink

Table: TypeAlias = tuple[str | None, ...]
"""A table's catalog, schema and name."""


class Conversion:
    """Writes changes as records of another format, and refuses the entire input if something would be lost.

    `one_header`: the output is one file, whose rows of CSV must have the same columns.
    """

    def __init__(
        self,
        form: Format,
        options: WriteOptions,
        rejects: RejectSink,
        report: ConversionReport,
        *,
        one_header: bool = False,
    ) -> None:
        self._form, self._options, self._rejects, self._report = form, options, rejects, report
        self._encoder = Encoder(form, options)
        self._numbering = Numbering()
        self._losses = Losses(form.name, options.drop, report.dropped)
        self._topics: dict[str | None, Table] = {}
        self._one_header = one_header
        self._headers: dict[bytes | None, None] = {}

    def records_of(self, batches: Iterable[pa.RecordBatch], source: Format) -> Iterator[pa.RecordBatch]:
        """The written records; raises `LossError` at the end, naming everything that the format cannot carry, with an example each.

        Updates that `source` writes as two records are joined first, except into the same dialect.
        """
        if source.halves and source.name != self._form.name:
            batches = _paired(batches, Pairing(lone_as_deletes=True))
        order = OutputOrder(halves=source.halves)
        for batch in drop_redundant_old_keys(batches, self._form):
            encoded = self._encoded(batch)
            self._report.add_written(encoded)
            self._check_tables(batch, encoded)
            for place, why in order.breaks(batch, encoded):
                self._losses.add("order", 1, f"{why} ({arrow_layouts.origins(batch.slice(place, 1))[0]})")
            self._numbering = self._numbering.after(batch, encoded)
            if self._one_header:
                self._headers.update(dict.fromkeys(headers_of(encoded.records)))
            if not self._losses and len(self._headers) < 2:
                yield encoded.records
        reasons = [self._losses.explanation()] if self._losses else []
        if len(self._headers) > 1:
            reasons.append(two_headers(*list(self._headers)[:2]))
        if reasons:
            raise LossError("\n".join(reasons))

    def _encoded(self, batch: pa.RecordBatch) -> Encoded:
        """The batch as if all losses were allowed: the encoder refuses a change for one feature at a time.

        So every lost feature is known before anything is refused.
        """
        encoded = self._encoder(batch, self._numbering)
        while found := self._losses.examples(encoded.rejects):
            drop = self._options.drop | self._losses.names | found
            self._encoder = Encoder(self._form, msgspec.structs.replace(self._options, drop=drop))
            encoded = self._encoder(batch, self._numbering)
        for feature, count in encoded.dropped.items():
            self._losses.add(feature, count)
        if encoded.rejects.num_rows:
            self._rejects.add(self._rejects.with_raw_records(encoded.rejects))
        return encoded

    def _check_tables(self, batch: pa.RecordBatch, encoded: Encoded) -> None:
        """Records that do not name their table must not mix two: only the topic distinguishes them."""
        if self._form.names_table or self._options.names_table:
            return
        for (topic, table), count in _tables_by_topic(batch, encoded, self._options.keyed).items():
            first = self._topics.setdefault(topic, table)
            if first != table:
                why = f"{self._form.name} records do not name their table, and the input has several"
                names = sorted(".".join(filter(None, each)) for each in (first, table))
                self._losses.add("table", count, f"{why}: {', '.join(names)}")


def _tables_by_topic(batch: pa.RecordBatch, encoded: Encoded, keyed: bool) -> Counter[tuple[str | None, Table]]:
    """How many changes of each table are on each topic; a plain file is one topic."""
    tables = batch.column("table").to_pylist()
    topics = encoded.records.column("topic").to_pylist() if keyed else [None] * encoded.records.num_rows
    found = {(place, topic) for place, topic in zip(encoded.places, topics, strict=True) if tables[place] is not None}
    return Counter((topic, tuple(tables[place].values())) for place, topic in sorted(found, key=lambda each: each[0]))


def _paired(batches: Iterable[pa.RecordBatch], pairing: Pairing) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pairing(batch)
    yield pairing.rest()
