"""Passes messages from Spark's connector to the Python tasks in flat columns: nested ones cost as much as the reading."""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from changeling.model import arrow_layouts
from changeling.spark.frames import origins

TRANSFER = pa.schema(
    [
        ("value", pa.binary()),
        ("key", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("headers", pa.string()),
    ]
)
"""Messages in transfer. `headers` is JSON, null where there are none: arrays, even null ones, take 5 microseconds a row."""
_pairs = msgspec.json.Decoder(list[tuple[str, str | None]]).decode


def for_transfer(frame: DataFrame) -> DataFrame:
    """A frame of the connector in layout `TRANSFER`."""
    pair = f.transform("headers", lambda header: f.array(header["key"], f.base64(header["value"])))
    return frame.select("value", "key", "topic", "partition", "offset", f.to_json(pair).alias("headers"))


@dataclass(frozen=True)
class KafkaReader:
    """Runs in the tasks: messages in layout `TRANSFER` into records; every message is a record.

    Origins have the number of the topic as `ordinal`: a topic that was recreated under the same name has another.
    """

    topics: dict[str, int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """One output batch for each input batch."""
        rejects = pa.RecordBatch.from_pylist([], schema=arrow_layouts.REJECTS)
        for batch in batches:
            yield _records(arrow_layouts.conform(batch, TRANSFER), self.topics), rejects


def _records(batch: pa.RecordBatch, topics: dict[str, int]) -> pa.RecordBatch:
    place = {name: batch.column(name) for name in ("topic", "partition", "offset")}
    names = batch.column("topic").dictionary_encode()
    numbers = pa.array([topics[name] for name in names.dictionary.to_pylist()], pa.int64())
    place["ordinal"] = numbers.take(names.indices)
    return pa.record_batch(
        [
            batch.column("value"),
            batch.column("key"),
            _headers(batch.column("headers")),
            batch.column("topic"),
            origins(batch.num_rows, place),
        ],
        schema=arrow_layouts.RECORDS,
    )


def _headers(texts: pa.Array) -> pa.Array:
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), arrow_layouts.HEADERS)
    return pa.array([None if text is None else _decoded(text) for text in texts.to_pylist()], arrow_layouts.HEADERS)


def _decoded(text: str) -> list[dict[str, str | bytes | None]]:
    return [{"name": name, "value": None if value is None else base64.b64decode(value)} for name, value in _pairs(text)]
