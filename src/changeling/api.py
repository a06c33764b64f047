"""Decode and encode on Arrow tables, without Spark and without files."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from changeling.formats import registry
from changeling.formats.decoding import Decoder
from changeling.formats.encoding import Encoder, Numbering
from changeling.formats.format import read_options, write_options
from changeling.model import arrow_layouts
from changeling.named_old_keys import drop_redundant_old_keys

Records: TypeAlias = pa.Table | pa.RecordBatch | Iterable[bytes | str | Mapping[str, Any]]


def decode(records: Records, format: str, **options: Any) -> tuple[pa.Table, pa.Table]:
    """Decodes wire records into a table of changes and a table of rejects.

    `records` are texts, or a table of layout `RECORDS` of which only `value` is required. Options are those of the format
    (`changeling formats` lists them) and `table`, `key`, `source`, `columns`, `schemas`, which all formats accept.
    """
    form = registry.get(format)
    decoder = Decoder(form, read_options(form, options))
    decoded = [decoder(batch) for batch in _batches(records)]
    return (
        pa.Table.from_batches([part.changes for part in decoded], arrow_layouts.CHANGES),
        pa.Table.from_batches([part.rejects for part in decoded], arrow_layouts.REJECTS),
    )


def encode(changes: pa.Table | pa.RecordBatch, format: str, **options: Any) -> tuple[pa.Table, pa.Table]:
    """Encodes changes into a table of wire records and a table of rejects.

    A reject is a change with something that the format cannot carry (`feature` names it) and that `drop` does not list.
    """
    form = registry.get(format)
    encoder = Encoder(form, write_options(form, options))
    numbering = Numbering()
    encoded = []
    batches = changes.to_batches() if isinstance(changes, pa.Table) else [changes]
    for batch in drop_redundant_old_keys(batches, form):
        encoded.append(encoder(batch, numbering))
        numbering = numbering.after(batch, encoded[-1])
    return (
        pa.Table.from_batches([part.records for part in encoded], arrow_layouts.RECORDS),
        pa.Table.from_batches([part.rejects for part in encoded], arrow_layouts.REJECTS),
    )


def _batches(records: Records) -> list[pa.RecordBatch]:
    if isinstance(records, pa.RecordBatch):
        records = pa.Table.from_batches([records])
    if isinstance(records, pa.Table):
        return [_completed(batch) for batch in records.combine_chunks().to_batches()]
    rows = [record if isinstance(record, Mapping) else {"value": record} for record in records]
    values = pa.array([_bytes(row.get("value")) for row in rows], pa.binary())
    keys = pa.array([_bytes(row.get("key")) for row in rows], pa.binary())
    topics = pa.array([row.get("topic") for row in rows], pa.string())
    return [_completed(pa.record_batch({"value": values, "key": keys, "topic": topics}))]


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _completed(batch: pa.RecordBatch) -> pa.RecordBatch:
    count = batch.num_rows
    columns = []
    for field in arrow_layouts.RECORDS:
        place = batch.schema.get_field_index(field.name)
        if place >= 0:
            columns.append(batch.column(place).cast(field.type))
        elif field.name == "origin":
            columns.append(_numbered(count))
        else:
            columns.append(pa.nulls(count, field.type))
    return pa.record_batch(columns, schema=arrow_layouts.RECORDS)


def _numbered(count: int) -> pa.Array:
    places = {"ordinal": pa.repeat(pa.scalar(0, pa.int64()), count), "record": pa.array(range(count), pa.int64())}
    return pa.StructArray.from_arrays(
        [places.get(field.name, pa.nulls(count, field.type)) for field in arrow_layouts.ORIGIN],
        fields=list(arrow_layouts.ORIGIN),
    )
