"""The parts of an input: planned as sources of pipelines are, and decoded in the tasks with the same kernels."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from changeling.datasource.kafka_input import KafkaTopics, records
from changeling.datasource.settings import FilesPlace, KafkaPlace, Rejects, Settings
from changeling.files.paths import STDIN
from changeling.model.change import Origin
from changeling.model.errors import ChangelingError, UsageError
from changeling.sources.files import FilesSource
from changeling.sources.kafka_plan import KafkaPlan
from changeling.sources.kafka_planner import KafkaPlanner, Subscription
from changeling.sources.source import Records
from changeling.spark.dialects import DecodeKernel
from changeling.spark.files import FilePart, FileRecords, FilesKernel, FilesReader, shared_out
from changeling.spark.rows_and_rejects import REJECT

_TASK_BYTES = 16 * 1024 * 1024
_TASK_RECORDS = 100_000
_NAME = "changeling"
"""What messages call the source."""


class FilesInput(InputPartition):
    """Files that one task reads."""

    def __init__(self, files: list[FilePart]) -> None:
        self.files = files


class SpanInput(InputPartition):
    """Offsets of a partition that one task reads, up to but not including `end`."""

    def __init__(self, topic: str, partition: int, start: int, end: int) -> None:
        self.topic, self.partition, self.start, self.end = topic, partition, start, end


def planner_of(settings: Settings) -> FilesSource | KafkaPlanner:
    """What plans the input; nothing is looked at yet."""
    place, records = settings.place, Records(_NAME, settings.format, settings.options)
    if isinstance(place, KafkaPlace):
        topics = [topic.strip() for topic in place.topics.split(",")]
        subscription = Subscription(topics, place.batch_records, place.start, place.on_gap)
        return KafkaPlanner(records, KafkaTopics(place), subscription)
    if place.path == STDIN:
        raise UsageError("tasks have no standard input: name a file, a folder or a pattern")
    return FilesSource(
        records,
        place.path if "://" in place.path else os.path.abspath(place.path),
        Path("/"),
        carrier=place.carrier,
        batch_bytes=place.batch_bytes,
        batch_files=place.batch_files,
    )


def inputs(planner: FilesSource | KafkaPlanner, plan: str) -> list[InputPartition]:
    """The parts of a plan, one a task."""
    if isinstance(planner, FilesSource):
        first, places = planner.planned(plan)
        return [FilesInput(files) for files in shared_out(places, first, _TASK_BYTES)]
    return [
        SpanInput(topic, partition, start, min(start + _TASK_RECORDS, span.end))
        for topic, partition, span in KafkaPlan.parse(plan).spans()
        for start in range(span.start, span.end, _TASK_RECORDS)
    ]


def rows(settings: Settings, part: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one part; raises `ChangelingError` at the first reject where that is asked for."""
    for batch in _decoded(settings, part):
        if settings.rejects is not Rejects.FAIL:
            yield batch
            continue
        refused = batch.column(REJECT).drop_null()
        if len(refused):
            reject = refused[0].as_py()
            where = Origin(**reject["origin"])
            raise ChangelingError(
                f"{where}: {reject['reason']} (the option rejects = skip, only or include continues without it)"
            )
        yield batch.drop_columns([REJECT])


def _decoded(settings: Settings, part: InputPartition) -> Iterator[pa.RecordBatch]:
    place = settings.place
    if isinstance(part, SpanInput) and isinstance(place, KafkaPlace):
        kernel = DecodeKernel(settings.format, settings.options, settings.part)
        yield from kernel(records(place, part.topic, part.partition, part.start, part.end))
    elif isinstance(part, FilesInput) and isinstance(place, FilesPlace):
        reader = FilesReader(FileRecords(settings.format, settings.options, place.carrier), [part.files])
        yield from FilesKernel(reader, settings.part)([pa.record_batch({"task": [0]})])
