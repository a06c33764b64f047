"""The changes of a chunk as a record batch, built column by column."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.model import arrow_layouts
from changeling.model.operation import Image
from changeling.model.table import TableName
from changeling.postgres.published_table import PublishedTable
from changeling.postgres.row_images import FULL, KEY, NONE, PARTIAL, RowImages, Texts
from changeling.postgres.transactions import PlacedChanges

CHANGES = arrow_layouts.CHANGES.set(
    arrow_layouts.CHANGES.get_field_index("schema"), pa.field("schema", pa.dictionary(pa.int32(), pa.string()))
)
"""The layout of changes, in which schemas are encoded with a dictionary: they are few, and long."""

_IMAGES = {NONE: Image.NONE, KEY: Image.KEY, PARTIAL: Image.PARTIAL, FULL: Image.FULL}
_IMAGE_NAMES = tuple(_IMAGES[number].value for number in range(len(_IMAGES)))
_LENGTHS = pa.array([f"{digits:02d}" for digits in range(100)], pa.string())


@dataclass(frozen=True)
class ReadChanges:
    """What was read of the changes of a chunk: each field has an entry for each change, in their order."""

    placed: PlacedChanges
    operations: pa.StringArray
    tables: np.ndarray
    """The index in `versions` of each change's table, or -1."""
    versions: Sequence[PublishedTable]
    rows: RowImages
    meta: pa.StringArray


def changes_batch(source: str, slot: str, read: ReadChanges) -> pa.RecordBatch:
    """The changes of one source, read through a slot."""
    placed, rows = read.placed, read.rows
    count, lsns = len(read.tables), placed.lsns[placed.transactions]
    names, schemas = _tables(read.tables, read.versions)
    columns = [
        _same(source, count),
        names,
        read.operations,
        _scattered(rows.keys, count),
        _scattered(rows.befores, count),
        _scattered(rows.afters, count),
        named(_IMAGE_NAMES, rows.before_images),
        named(_IMAGE_NAMES, rows.after_images),
        _same("canonical", count),
        pc.binary_join_element_wise(
            _numbers(placed.lsns).take(pa.array(placed.transactions)), _numbers(placed.ordinals), "."
        ),
        pa.array(placed.times[placed.transactions], mask=placed.outside),
        _transactions(placed),
        pa.nulls(count, pa.int64()),
        pa.StructArray.from_arrays(
            [
                pa.nulls(count, pa.string()),
                pa.nulls(count, pa.int64()),
                pa.array(placed.ordinals),
                _same(slot, count),
                pa.array(np.zeros(count, np.int32)),
                pa.array(lsns),
            ],
            fields=list(arrow_layouts.ORIGIN),
        ),
        read.meta,
        schemas,
        pa.array(np.zeros(count, bool)),
    ]
    return pa.record_batch(columns, schema=CHANGES)


def named(names: tuple[str, ...], numbers: np.ndarray) -> pa.StringArray:
    """The name for each number."""
    if len(numbers) and (numbers == numbers[0]).all():
        return _same(names[numbers[0]], len(numbers))
    return pa.array(names, pa.string()).take(pa.array(numbers))


def _same(text: str, count: int) -> pa.StringArray:
    return _repeated(text, _rounded(count))[:count]


def _rounded(count: int) -> int:
    """Chunks have many lengths; constant columns are cached for a few."""
    return max(1024, 1 << (count - 1).bit_length())


@functools.lru_cache(maxsize=256)
def _repeated(text: str, count: int) -> pa.StringArray:
    return pa.repeat(pa.scalar(text, pa.string()), count)


@functools.lru_cache(maxsize=64)
def _repeated_table(table: TableName, count: int) -> pa.StructArray:
    return arrow_layouts.tables_array([table]).take(pa.array(np.zeros(count, np.int8)))


def _scattered(parts: list[Texts], count: int) -> pa.StringArray:
    """The texts at the indexes of their changes; null elsewhere."""
    if not parts:
        return pa.nulls(count, pa.string())
    if len(parts) == 1 and len(parts[0].changes) == count:
        return parts[0].texts
    changes = np.concatenate([part.changes for part in parts])
    places, absent = np.zeros(count, np.int64), np.ones(count, bool)
    places[changes] = np.arange(len(changes))
    absent[changes] = False
    return pa.concat_arrays([part.texts for part in parts]).take(pa.array(places, mask=absent))


def _numbers(components: np.ndarray) -> pa.StringArray:
    """Components of positions, as `position.encode` writes each."""
    digits = pc.cast(pa.array(components), pa.string())
    return pc.binary_join_element_wise(_LENGTHS.take(pc.binary_length(digits)), digits, "")


def _transactions(placed: PlacedChanges) -> pa.StructArray:
    count = len(placed.messages)
    return pa.StructArray.from_arrays(
        [
            pc.cast(pa.array(placed.xids), pa.string()).take(pa.array(placed.transactions)),
            pa.array(placed.ordinals),
            pa.nulls(count, pa.int64()),
            pa.array(placed.complete, mask=~placed.complete),
        ],
        fields=list(arrow_layouts.TRANSACTION),
        mask=pa.array(placed.outside),
    )


def _tables(tables: np.ndarray, versions: Sequence[PublishedTable]) -> tuple[pa.StructArray, pa.DictionaryArray]:
    """The names of the tables, and their schemas."""
    count, absent = len(tables), tables < 0
    used = np.flatnonzero(np.bincount(tables[~absent], minlength=1))
    distinct = [versions[number] for number in used.tolist()]
    texts = {text: place for place, text in enumerate(dict.fromkeys(table.schema_text for table in distinct))}
    dictionary = pa.array(list(texts), pa.string())
    if len(distinct) == 1 and not absent.any():
        names = _repeated_table(distinct[0].name, _rounded(count))[:count]
        places = pa.array(np.zeros(count, np.int32))
        return names, pa.DictionaryArray.from_arrays(places, dictionary, safe=False)
    owners = np.where(absent, 0, np.searchsorted(used, tables))
    names = arrow_layouts.tables_array([table.name for table in distinct]).take(pa.array(owners, mask=absent))
    schemas = np.array([texts[table.schema_text] for table in distinct] or [0], np.int32)
    return names, pa.DictionaryArray.from_arrays(pa.array(schemas[owners], mask=absent), dictionary, safe=False)
