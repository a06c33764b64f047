"""How messages cross from Spark's connector to the tasks' Python: in flat columns, for nested ones cost as much as the reading."""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from changeling.model import layout
from changeling.spark.adapter import conform
from changeling.spark.frames import origins

CROSSING = pa.schema(
    [
        ("value", pa.binary()),
        ("key", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("headers", pa.string()),
    ]
)
"""Messages on their way. `headers` is JSON, null where there are none: as arrays, even null ones, they take 5 microseconds a row."""
_pairs = msgspec.json.Decoder(list[tuple[str, str | None]]).decode


def crossing(frame: DataFrame) -> DataFrame:
    """A frame of the connector in layout `CROSSING`."""
    pair = f.transform("headers", lambda header: f.array(header["key"], f.base64(header["value"])))
    return frame.select("value", "key", "topic", "partition", "offset", f.to_json(pair).alias("headers"))


@dataclass(frozen=True)
class KafkaReader:
    """Runs in the tasks: messages in layout `CROSSING` into records; there is nothing that is none.

    Origins have the number of the topic as `ordinal`: one that was made anew under the same name has another.
    """

    topics: dict[str, int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """One batch out for each that comes in."""
        rejects = pa.RecordBatch.from_pylist([], schema=layout.REJECTS)
        for batch in batches:
            yield _records(conform(batch, CROSSING), self.topics), rejects


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
        schema=layout.RECORDS,
    )


def _headers(texts: pa.Array) -> pa.Array:
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), layout.HEADERS)
    return pa.array([None if text is None else _decoded(text) for text in texts.to_pylist()], layout.HEADERS)


def _decoded(text: str) -> list[dict[str, str | bytes | None]]:
    return [{"name": name, "value": None if value is None else base64.b64decode(value)} for name, value in _pairs(text)]
