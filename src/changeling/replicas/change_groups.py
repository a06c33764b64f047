"""Batches of changes taken apart: those of one table, and of them those that are read alike, with their effects."""

import math
from collections.abc import Iterator, Mapping
from typing import TypeVar

import numpy as np
import pyarrow as pa

from changeling.log.table_groups import group_codes
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName
from changeling.replicas.row_effect import effect
from changeling.replicas.row_events import CODES

Wanted = TypeVar("Wanted")
SourceTable = tuple[str | None, ...]
"""A table as changes name it: source, catalog, schema, name."""


def source_table(source: str, table: TableName) -> SourceTable:
    """The place of a table."""
    return source, table.catalog, table.schema, table.name


def by_table(batch: pa.RecordBatch, known: Mapping[SourceTable, Wanted]) -> Iterator[tuple[Wanted, pa.RecordBatch]]:
    """The changes of each table that is known, with what is known of it."""
    if not batch.num_rows:
        return
    names = [batch.column("source"), *batch.column("table").flatten()]
    encoded = [column.dictionary_encode() for column in names]
    if all(len(column.dictionary) + bool(column.null_count) == 1 for column in encoded):
        wanted = known.get(tuple(column[0].as_py() for column in names))
        if wanted is not None:
            yield wanted, batch
        return
    codes = group_codes(encoded)
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    found = codes[starts]
    if len(np.unique(found)) == len(found):
        # As the log has them: those of a table are neighbours.
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), batch.num_rows], strict=True):
            wanted = known.get(tuple(column[start].as_py() for column in names))
            if wanted is not None:
                yield wanted, batch.slice(start, end - start)
        return
    _, firsts, inverse = np.unique(codes, return_index=True, return_inverse=True)
    for group, first in enumerate(firsts):
        wanted = known.get(tuple(column[int(first)].as_py() for column in names))
        if wanted is not None:
            yield wanted, batch if len(firsts) == 1 else batch.filter(pa.array(inverse == group))


def effects_of(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """The effect of each change, by its code, and which of them are changes of a row."""
    columns = [batch.column(name).dictionary_encode() for name in ("op", "before_image", "after_image", "encoding")]
    sizes = [len(column.dictionary) for column in columns]
    codes = np.zeros(batch.num_rows, np.int64)
    for column, size in zip(columns, sizes, strict=True):
        codes = codes * size + np.asarray(column.indices, np.int64)
    found = np.full(max(1, math.prod(sizes)), -1, np.int8)
    for code in np.flatnonzero(np.bincount(codes)).tolist():
        places = np.unravel_index(code, sizes)
        parts = [column.dictionary[int(place)].as_py() for column, place in zip(columns, places, strict=True)]
        kind = effect(Operation(parts[0]), Image(parts[1]), Image(parts[2]), parts[3])
        found[code] = -1 if kind is None else CODES[kind]
    effects = found[codes]
    return effects, effects >= 0


def alike(
    batch: pa.RecordBatch, versions: np.ndarray, effects: np.ndarray
) -> Iterator[tuple[str, int, pa.RecordBatch, np.ndarray]]:
    """The changes of one encoding and one version each."""
    if not batch.num_rows:
        return
    encodings = batch.column("encoding").dictionary_encode()
    if len(encodings.dictionary) == 1 and (versions == versions[0]).all():
        yield encodings.dictionary[0].as_py(), int(versions[0]), batch, effects
        return
    codes = np.asarray(encodings.indices, np.int64)
    pairs = np.stack([codes, versions])
    distinct, inverse = np.unique(pairs, axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    for place in range(distinct.shape[1]):
        encoding, version = encodings.dictionary[int(distinct[0, place])].as_py(), int(distinct[1, place])
        rows = inverse == place
        yield encoding, version, batch.filter(pa.array(rows)), effects[rows]
