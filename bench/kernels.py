"""Decode and encode of every format on one core without Spark; the peer only parses (or prints) the JSON."""

import functools
import json
from typing import Any

import pyarrow as pa

import changeling
from bench.events import events
from bench.measuring import Benchmark, Result, medians
from changeling.formats import registry
from changeling.formats.decoding import Decoder
from changeling.formats.encoding import Encoder, Numbering
from changeling.formats.format import read_options, write_options

COUNT = 40_000
BATCH = 8_000
RUNS = 3
SHARED = {"table": "users", "key": "_id"}


def benchmarks() -> dict[str, Benchmark]:
    found: dict[str, Benchmark] = {}
    for name in registry.names():
        found[f"decode-{name}"] = functools.partial(decode, name)
        found[f"encode-{name}"] = functools.partial(encode, name)
    return found


@functools.cache
def changes() -> pa.Table:
    made, rejects = changeling.decode(list(events(COUNT)), "xtdb", key="_id")
    assert rejects.num_rows == 0
    return made


@functools.cache
def records(name: str) -> pa.Table:
    """The same changes as records of the format; what it cannot carry is left out."""
    return changeling.encode(changes(), name, drop="all")[0].combine_chunks()


def decode(name: str) -> Result:
    form = registry.get(name)
    decoder = Decoder(form, read_options(form, SHARED))
    table = records(name)
    batches = table.to_batches(max_chunksize=BATCH)
    rejected = sum(decoder(batch).rejects.num_rows for batch in batches)
    values = [value for value in table["value"].to_pylist() if value is not None]
    ours, peer = medians(RUNS, lambda: [decoder(batch) for batch in batches], lambda: _parse(values))
    return _result(f"decode-{name}", table, ours, peer if _is_json(values) else None, rejected)


def encode(name: str) -> Result:
    form = registry.get(name)
    encoder = Encoder(form, write_options(form, {"drop": "all"}))
    table = changes()
    batches = table.combine_chunks().to_batches(max_chunksize=BATCH)
    rejected = sum(encoder(batch, Numbering()).rejects.num_rows for batch in batches)
    values = [value for value in records(name)["value"].to_pylist() if value is not None]
    parsed = _parse(values) if _is_json(values) else []
    ours, peer = medians(
        RUNS,
        lambda: [encoder(batch, Numbering()) for batch in batches],
        lambda: [json.dumps(value) for value in parsed],
    )
    return _result(f"encode-{name}", records(name), ours, peer if parsed else None, rejected)


def _parse(values: list[bytes]) -> list[Any]:
    return [json.loads(value) for value in values] if _is_json(values) else []


def _is_json(values: list[bytes]) -> bool:
    return values[0][:1] in (b"{", b"[")


def _result(name: str, table: pa.Table, ours: float, peer: float | None, rejected: int) -> Result:
    size = sum(len(value) for value in table["value"].to_pylist() if value is not None)
    note = f"{size / ours / 1e6:,.0f} MB/s"
    if rejected:
        note += f", {rejected:,} of {COUNT:,} rejected"
    return Result(
        name,
        table.num_rows / ours,
        "records/s",
        peer=None if peer is None else table.num_rows / peer,
        note=note,
    )
