"""The first records of a source, decoded as a run would decode them. Needs no Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from changeling.files import reading
from changeling.files.paths import FileRef
from changeling.formats import registry
from changeling.formats.decoding import Decoder
from changeling.formats.options import ReadOptions
from changeling.formats.recognition import fitting
from changeling.model import arrow_layouts
from changeling.pipelines.definition import FilesSource, RecordSource

if TYPE_CHECKING:
    from changeling.feeds.kafka_cluster import Cluster

SAMPLED = 100
"""How many records are decoded at most."""


@dataclass(frozen=True)
class Sample:
    """What became of the first records of a source."""

    records: int
    tables: tuple[str, ...] = ()
    """The tables of the changes in them."""
    reasons: tuple[str, ...] = ()
    """Why records would be rejected, one for each of them."""
    resembles: tuple[str, ...] = ()
    """The dialects that the records look like, where none could be decoded."""


def sample_of_files(source: FilesSource, options: ReadOptions, places: Sequence[FileRef]) -> Sample:
    """The first records of files."""
    framing = registry.get(source.format).framing(options)
    found = reading.read(
        places, framing=framing, carrier=source.carrier, batch_rows=SAMPLED, size_limit=options.record_bytes
    )
    for part in found:
        if part.records.num_rows or part.rejects.num_rows:
            return _decoded(source, options, part.records, part.rejects)
    return Sample(0)


def sample_of_topics(source: RecordSource, options: ReadOptions, cluster: "Cluster", topics: dict[str, int]) -> Sample:
    """The first committed records of topics, each with the number of its partitions."""
    rows: list[dict[str, object]] = []
    for ordinal, (topic, partitions) in enumerate(topics.items()):
        for message in islice(cluster.committed(topic, partitions), SAMPLED - len(rows)):
            place = {"ordinal": ordinal, "topic": topic, "partition": message.partition(), "offset": message.offset()}
            headers = [{"name": pair[0], "value": pair[1]} for pair in message.headers() or ()]
            rows.append(
                {
                    "value": message.value(),
                    "key": message.key(),
                    "headers": headers or None,
                    "topic": topic,
                    "origin": place,
                }
            )
    records = pa.RecordBatch.from_pylist(rows, schema=arrow_layouts.RECORDS)
    return _decoded(source, options, records, pa.RecordBatch.from_pylist([], schema=arrow_layouts.REJECTS))


def _decoded(source: RecordSource, options: ReadOptions, records: pa.RecordBatch, unread: pa.RecordBatch) -> Sample:
    form = registry.get(source.format)
    decoded = Decoder(form, options)(records)
    reasons = [*unread.column("reason").to_pylist(), *decoded.rejects.column("reason").to_pylist()]
    count = records.num_rows + unread.num_rows
    tables = sorted(
        {str(change.table) for change in arrow_layouts.changes(decoded.changes) if change.table is not None}
    )
    found = fitting(records.column("value").to_pylist()) if len(reasons) == count else []
    return Sample(count, tuple(tables), tuple(reasons), tuple(name for name in found if name != form.name))
