"""Replays rejected records after a fix: those that can be decoded now leave the rejects, exactly once.

A replay is a batch of its source. Once its changes are in the log, the log contains which records they came from: so an
interrupted replay is completed from there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import functions as f

from changeling.files import kcat
from changeling.files.reading import Carrier
from changeling.iceberg.failpoints import reach
from changeling.iceberg.lake import Lake
from changeling.log import log_tables
from changeling.log.ingest import BatchReport, Ingest
from changeling.log.reject_ids import REJECT_ID
from changeling.model import arrow_layouts
from changeling.model.change import Record
from changeling.model.errors import Rejected
from changeling.sources.source import Input

_REJECTED = pa.schema([field for field in arrow_layouts.REJECTS if field.name != "feature"])


def replay(lake: Lake, ingest: Ingest, carrier: Carrier) -> BatchReport:
    """Reads all rejects of a source again; those that still cannot be decoded stay.

    An interrupted batch is completed first: its rejects are not final.
    """
    while ingest.read_is_pending:
        ingest.step()
    report = ingest.replay(_input(lake, ingest.source.name, carrier))
    _remove_accepted(lake, ingest.source.name, report.batch)
    return report


def finish_replay(lake: Lake, ingest: Ingest, carrier: Carrier) -> None:
    """Completes an interrupted replay."""
    if ingest.replay_is_pending:
        replay(lake, ingest, carrier)
    elif (batch := ingest.last_replay) is not None:
        _remove_accepted(lake, ingest.source.name, batch)


def _input(lake: Lake, source: str, carrier: Carrier) -> Input:
    rows = lake.frame(log_tables.REJECTS).where(f.col("source") == source)
    return Input(rows.select(*(f.col(field.name) for field in _REJECTED)), _RejectsReader(carrier))


def _remove_accepted(lake: Lake, source: str, batch: int) -> None:
    reach("replay.before")
    lake.retried(
        f"DELETE FROM {lake.name(log_tables.REJECTS)} WHERE source = '{source}' AND id IN "
        f"(SELECT {REJECT_ID} FROM {lake.name(log_tables.CHANGES)} WHERE source = '{source}' AND batch = {batch})"
    )
    reach("replay.after")


@dataclass(frozen=True)
class _RejectsReader:
    """Converts rejects into the records that were rejected."""

    carrier: Carrier

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """One output batch for each input batch."""
        for batch in batches:
            rows = arrow_layouts.conform(batch, _REJECTED)
            names = {"value": "raw"}
            columns = [rows.column(names.get(field.name, field.name)) for field in arrow_layouts.RECORDS]
            records = pa.record_batch(columns, schema=arrow_layouts.RECORDS)
            yield self._unwrapped(records) if self.carrier == "kcat" else (records, _none())

    def _unwrapped(self, records: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Lines that were not messages of kcat are parsed again; the others are records already."""
        unwrapped: list[Record] = []
        for record, origin in zip(arrow_layouts.records(records), arrow_layouts.origins(records), strict=True):
            if origin.topic is None and record.value is not None:
                try:
                    record = kcat.parse(record.value).record
                except Rejected:
                    # Still not a message: it stays a reject.
                    record = Record(record.value)
            unwrapped.append(record)
        return (arrow_layouts.records_batch(unwrapped, records.column("origin")), _none())


def _none() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], arrow_layouts.REJECTS)
