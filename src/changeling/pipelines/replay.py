"""Rejected records, read again after a fix: those that give changes now leave the rejects, exactly once.

A replay is a batch of its source. Once its changes are in the log, the log itself tells which records they came from: so a
replay that was cut off in between is brought to its end by looking there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import functions as f

from changeling.files import kcat
from changeling.files.reading import Carrier
from changeling.iceberg.failpoints import reach
from changeling.iceberg.lake import Lake
from changeling.log import layout
from changeling.log.ingest import Ingest, Report
from changeling.log.ingest_task import REJECT_ID
from changeling.model import layout as model
from changeling.model.change import Record
from changeling.model.errors import Rejected
from changeling.sources.source import Input
from changeling.spark.adapter import conform

_REJECTED = pa.schema([field for field in model.REJECTS if field.name != "feature"])


def replay(lake: Lake, ingest: Ingest, carrier: Carrier) -> Report:
    """Reads all rejects of a source again; those that are still no changes stay where they are.

    A batch that was cut off is brought in first: its rejects are not final.
    """
    while ingest.read_is_pending:
        ingest.step()
    report = ingest.bring_in_again(_input(lake, ingest.source.name, carrier))
    _remove_accepted(lake, ingest.source.name, report.batch)
    return report


def settle(lake: Lake, ingest: Ingest, carrier: Carrier) -> None:
    """Brings a replay to its end that was cut off."""
    if ingest.replay_is_pending:
        replay(lake, ingest, carrier)
    elif (batch := ingest.last_replay) is not None:
        _remove_accepted(lake, ingest.source.name, batch)


def _input(lake: Lake, source: str, carrier: Carrier) -> Input:
    rows = lake.frame(layout.REJECTS).where(f.col("source") == source)
    return Input(rows.select(*(f.col(field.name) for field in _REJECTED)), _RejectsReader(carrier))


def _remove_accepted(lake: Lake, source: str, batch: int) -> None:
    reach("replay.before")
    lake.retried(
        f"DELETE FROM {lake.name(layout.REJECTS)} WHERE source = '{source}' AND id IN "
        f"(SELECT {REJECT_ID} FROM {lake.name(layout.CHANGES)} WHERE source = '{source}' AND batch = {batch})"
    )
    reach("replay.after")


@dataclass(frozen=True)
class _RejectsReader:
    """Rows of rejects into records as they were before they were rejected."""

    carrier: Carrier

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """One batch out for each that comes in."""
        for batch in batches:
            rows = conform(batch, _REJECTED)
            names = {"value": "raw"}
            columns = [rows.column(names.get(field.name, field.name)) for field in model.RECORDS]
            records = pa.record_batch(columns, schema=model.RECORDS)
            yield self._unwrapped(records) if self.carrier == "kcat" else (records, _none())

    def _unwrapped(self, records: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Lines that were no messages of kcat are looked at again as such; the others are records already."""
        made: list[Record] = []
        for record, origin in zip(model.records(records), model.origins(records), strict=True):
            if origin.topic is None and record.value is not None:
                try:
                    record = kcat.parse(record.value).record
                except Rejected:
                    # Still no message: as a record it is none either, and stays a reject.
                    record = Record(record.value)
            made.append(record)
        return (model.records_batch(made, records.column("origin")), _none())


def _none() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], model.REJECTS)
