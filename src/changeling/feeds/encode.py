"""Encodes completed changes as the records of a feed: what its mode shows, in its dialect, with numbers that continue from before."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from changeling.envelope.cells import Cell
from changeling.envelope.column_cells import ColumnCells
from changeling.feeds.completion import Completed
from changeling.feeds.dialect_spelling import Spelling, spellings, with_user
from changeling.feeds.feed import Feed
from changeling.feeds.point_changes import Stamp, Stamped
from changeling.feeds.row_values import Row, digest
from changeling.feeds.topic import RECORDS
from changeling.formats import registry
from changeling.formats.encoding import Encoded, Encoder, Numbering
from changeling.formats.format import Counts
from changeling.formats.options import build
from changeling.formats.transaction_progress import TransactionProgress
from changeling.model import arrow_layouts, json_text, position
from changeling.model.change import Change, Transaction
from changeling.model.operation import Image, Operation
from changeling.model.table import Column, TableName, TableSchema
from changeling.model.times import NANOS_PER_MILLI
from changeling.replicas.shape import Columns, ReplicaColumn, Shape

YDB = ("ydb-json", "ydb-debezium", "ydb-dynamodb")
LEFT_OUT = frozenset({"position", "order", "commit_time", "transaction", "table", "catalog", "schema"})
"""What a format may have no place for in its envelope: the record shows the row all the same."""
SLICE = 20_000
"""Changes that are encoded at once: what is made of them on the way takes several times the memory of their records."""
_ARCION = {"UPDATES": ("KEY", "UPDATED"), "NEW_AND_OLD_IMAGES": ("ALL", "ALL")}


class ToPublish(NamedTuple):
    """A change to be published, and where it stands in its source."""

    change: Completed
    stamped: Stamped
    commit_time: int | None = None
    transaction: Transaction | None = None
    """Its transaction as the source has it."""
    user: str | None = None
    """Who made it, where the feed shows that."""


@dataclass(frozen=True)
class Published:
    """The records of a batch, and what the feed continues from."""

    records: pa.Table
    """Of layout `topic.RECORDS`; those of each partition are in order."""
    rejects: pa.Table
    counts: Counts
    changes: int


class FeedEncoder:
    """Encodes the changes of one feed's table while it has one shape."""

    def __init__(self, feed: Feed, columns: Columns, shape: Shape, version: int | None) -> None:
        self._feed, self._table, self._shape = feed, feed.table, shape
        self._form = registry.get(feed.format)
        self._schema = schema_of(feed.table, columns, shape, version)
        self._spellings = spellings(feed.format, shape)
        self._text = _spelled(self._schema, shape, self._spellings).to_json()
        self._encoders: dict[int, Encoder] = {}

    def encode(self, changes: Sequence[ToPublish], source: str, counts: Counts, before: int) -> Published:
        """The records of some changes; `before` and `counts` say how many the feed has published already."""
        parts, numbered = self._partitions(changes), _numbered(changes)
        found, rejects = [RECORDS.empty_table()], [arrow_layouts.REJECTS.empty_table()]
        for start in range(0, len(changes), SLICE):
            part = list(islice(numbered, SLICE))
            numbering = Numbering(before + start, counts, progress=[TransactionProgress()] * len(part))
            batch = self._batch(part, before + start, source)
            for places, encoded in self._encoded(batch, numbering, parts[start : start + SLICE]):
                own = places[np.asarray(encoded.places, np.int64)] + start
                values = encoded.records.column("value")
                if self._feed.user_sids and self._feed.format in YDB:
                    values = self._with_users(values, [changes[place].user for place in own])
                columns = [pa.array(parts[own], pa.int32()), encoded.records.column("key"), values]
                found.append(pa.table([*columns, encoded.records.column("headers")], schema=RECORDS))
                rejects.append(pa.Table.from_batches([encoded.rejects], arrow_layouts.REJECTS))
            counts = numbering.counts_after(batch)
        return Published(pa.concat_tables(found), pa.concat_tables(rejects), counts, before + len(changes))

    def _partitions(self, changes: Sequence[ToPublish]) -> np.ndarray:
        """The partition of each change."""
        if self._feed.partitions == 1:
            return np.zeros(len(changes), np.int64)
        found = (digest(one.change.key) % self._feed.partitions for one in changes)
        return np.fromiter(found, np.int64, len(changes))

    def _with_users(self, values: pa.Array, users: Sequence[str | None]) -> pa.Array:
        return pa.array(
            [
                value if value is None or user is None else with_user(self._feed.format, value, user)
                for value, user in zip(values.to_pylist(), users, strict=True)
            ],
            values.type,
        )

    def barrier(self, stamp: Stamp, source: str) -> bytes:
        """The record that says that everything up to a stamp is published."""
        change = Change(
            op=Operation.BARRIER,
            table=self._table,
            position=position.encode(*stamp),
            commit_time=stamp.step * NANOS_PER_MILLI,
        )
        return self._control(change, source)

    def schema_record(self, stamp: Stamp, source: str, version: int | None) -> bytes:
        """The record that says which columns the table has from now on."""
        schema = msgspec.structs.replace(self._schema, id=version)
        change = Change(
            op=Operation.DDL,
            table=self._table,
            position=position.encode(*stamp),
            commit_time=stamp.step * NANOS_PER_MILLI,
            transaction=Transaction(str(stamp.number)),
            schema=schema.to_json(),
        )
        return self._control(change, source)

    def _control(self, change: Change, source: str) -> bytes:
        batch = arrow_layouts.changes_batch([change], pa.nulls(1, arrow_layouts.ORIGIN), source, "canonical")
        (record,) = arrow_layouts.records(self._encoder(0)(batch).records)
        assert record.value is not None
        return record.value

    def _encoded(
        self, batch: pa.RecordBatch, numbering: Numbering, parts: np.ndarray
    ) -> Iterator[tuple[np.ndarray, Encoded]]:
        """Encoded parts of a batch, each with the places of its changes."""
        if self._feed.format != "ydb-dynamodb" or self._feed.partitions == 1:
            yield np.arange(batch.num_rows), self._encoder(0)(batch, numbering)
            return
        # A record names its shard, which is its partition.
        for partition in range(self._feed.partitions):
            places = np.flatnonzero(parts == partition)
            yield places, self._encoder(partition)(batch.take(pa.array(places, pa.int64())))

    def _encoder(self, partition: int) -> Encoder:
        if partition not in self._encoders:
            options = build(self._form.write_options, write_options(self._feed, partition), f"feed {self._feed.name!r}")
            self._encoders[partition] = Encoder(self._form, options)
        return self._encoders[partition]

    def _batch(self, changes: Sequence[ToPublish], before: int, source: str) -> pa.RecordBatch:
        """Changes as the encoder reads them; `before` says how many the feed has published already."""
        cells = ColumnCells(len(changes))
        shown = [self._shown(one.change) for one in changes]
        before_sides, after_sides = [one.before for one in shown], [one.after for one in shown]
        places = [self._place(one, before + number) for number, one in enumerate(changes, 1)]
        transactions = [one.transaction for one in places]
        given = {
            **dict.fromkeys(arrow_layouts.CHANGES.names),
            "source": source,
            "table": arrow_layouts.tables_array([self._table]).take(cells.array(0)),
            "op": [one.op for one in shown],
            "key": self._keys([one.change for one in changes]),
            "before": self._images(before_sides),
            "after": self._images(after_sides),
            "before_image": [Image.NONE if one is None else one.size for one in before_sides],
            "after_image": [Image.NONE if one is None else one.size for one in after_sides],
            "encoding": "canonical",
            "position": [one.position for one in places],
            "commit_time": [one.commit_time for one in places],
            "transaction": cells.transaction(
                *([one and getattr(one, name) for one in transactions] for name in Transaction.__struct_fields__)
            ),
            "origin": pa.nulls(len(changes), arrow_layouts.ORIGIN),
            "schema": self._text,
            "arrived": False,
        }
        columns = [cells.array(given[field.name], field.type) for field in arrow_layouts.CHANGES]
        return pa.record_batch(columns, schema=arrow_layouts.CHANGES)

    def _place(self, one: ToPublish, number: int) -> "_Place":
        """The position, the time and the transaction that records of the dialect have."""
        stamp, serial, order = one.stamped
        millis = (stamp.step if one.commit_time is None else one.commit_time // NANOS_PER_MILLI) * NANOS_PER_MILLI
        own = Transaction(str(stamp.number))
        match self._feed.format:
            case "ydb-json":
                return _Place(position.encode(*stamp), stamp.step * NANOS_PER_MILLI, own)
            case "ydb-debezium":
                return _Place(position.encode(*stamp), max(millis, 0), own)
            case "ydb-dynamodb":
                return _Place(position.encode(number), max(millis, 0))
            case "xtdb":
                return _Place(position.encode(serial, order), millis, Transaction(str(serial), order))
            case _:
                return _Place(position.encode(*stamp), one.commit_time, one.transaction)

    def _shown(self, change: Completed) -> "_Shown":
        """The operation and the images that the dialect needs for the feed's mode."""
        op, own = change.op, [None if row is None else _Side(row, Image.FULL) for row in (change.before, change.after)]
        before, after = own
        if change.touched:
            return _Shown(Operation.UPDATE, None, None)
        if op in (Operation.INSERT, Operation.UPDATE, Operation.REPLACE):
            whole = {column.id for column in self._shape.columns}
            mentioned = whole if op is Operation.REPLACE else change.mentioned
            op = Operation.INSERT if change.before is None else Operation.UPDATE
            # An update of YDB's may be that of a new row.
            is_update = op is Operation.UPDATE or self._feed.format == "ydb-json"
            if self._feed.shows_parts and mentioned is not None and is_update and change.after is not None:
                # What the source sent of the row, NULLs among it.
                part = {number: change.after.get(number, b"null") for number in mentioned}
                return _Shown(Operation.UPDATE, before, _Side(part, Image.PARTIAL))
        if self._feed.format not in YDB and self._feed.mode == "NEW_IMAGE":
            before = _Side(change.before or {}, Image.KEY) if op is Operation.DELETE else None
        return _Shown(op, before, after)

    def _images(self, sides: Sequence["_Side | None"]) -> pa.Array:
        """Rows as objects; null where there is none."""
        there = [one for one in sides if one is not None]
        if not there:
            return pa.nulls(len(sides), pa.string())
        cells = ColumnCells(len(there))
        columns = self._columns([one.row for one in there], self._shape.columns)
        sizes = cells.array([one.size for one in there], pa.string())
        made = cells.json_object({name: cells.or_null(values) for name, values in columns.items()})
        # A document of XTDB has no member for what it does not have.
        parts = cells.equal(sizes, Image.PARTIAL) | cells.mask(self._feed.format == "xtdb")
        if cells.any(parts):
            made = cells.where(parts, cells.first(cells.sparse(columns), b"{}"), made)
        by_key = cells.equal(sizes, Image.KEY)
        if cells.any(by_key):
            made = cells.where(by_key, cells.json_object(self._key_columns(cells, columns)), made)
        shown = np.array([one is not None for one in sides])
        return cells.array(made, pa.string()).take(pa.array(np.cumsum(shown) - 1, mask=~shown))

    def _keys(self, changes: Sequence[Completed]) -> pa.Array:
        """The keys, as the images spell them: that of a change is spelled as rows are found by it."""
        cells = ColumnCells(len(changes))
        rows = [(one.before if one.op is Operation.DELETE else one.after) or {} for one in changes]
        columns = self._key_columns(cells, self._columns(rows, self._shape.key_columns))
        canonical = {name: list(map(json_text.canonical, cells.array(columns[name]).to_pylist())) for name in columns}
        return cells.array(cells.json_object(dict(sorted(canonical.items()))), pa.string())

    def _key_columns(self, cells: ColumnCells, columns: Mapping[str, pa.Array]) -> dict[str, Cell]:
        names = [column.source_name for column in self._shape.key_columns]
        return {name: cells.or_null(columns[name]) for name in names}

    def _columns(self, rows: Sequence[Row], columns: Sequence[ReplicaColumn]) -> dict[str, pa.Array]:
        """The values of rows by column, as the dialect spells them; null where a row has none."""
        found = {}
        for column in columns:
            values = pa.array([row.get(column.id) for row in rows], pa.binary())
            spelling = self._spellings.get(column.id)
            found[column.source_name] = values if spelling is None else spelling.write(values)
        return found


class _Side(NamedTuple):
    """A row that a record shows, and how much of it."""

    row: Row
    size: Image


class _Shown(NamedTuple):
    """What a record shows."""

    op: Operation
    before: _Side | None
    after: _Side | None


class _Place(NamedTuple):
    """Where and when a record says that it belongs."""

    position: str
    commit_time: int | None
    transaction: Transaction | None = None


def _numbered(changes: Sequence[ToPublish]) -> Iterator[ToPublish]:
    """With orders that differ inside of a transaction: a change of the source may be several records, as a truncate is."""
    last: dict[Stamp, int] = {}
    for one in changes:
        stamp, order = one.stamped.stamp, one.stamped.order
        order = max(order, last.get(stamp, -1) + 1)
        last[stamp] = order
        yield one._replace(stamped=one.stamped._replace(order=order))


def write_options(feed: Feed, partition: int = 0) -> dict[str, object]:
    """The options of the format's writer: those of the feed, and what its mode and its other settings mean for the format."""
    given: dict[str, object] = {**feed.options, "drop": LEFT_OUT, "keyed": feed.topic != "files"}
    if feed.format == "arcion-native":
        # It has one layout, whatever the rows are.
        given.pop("mode", None)
    if feed.format in YDB:
        given |= {"mode": feed.mode, "feed": feed.name}
    if feed.format == "ydb-json":
        given |= {"virtual_timestamps": feed.virtual_timestamps, "reset": False}
    if feed.format == "ydb-dynamodb":
        given |= {"region": feed.aws_region, "shard": str(partition), "nulls": "omit", "time_unit": "milliseconds"}
    if feed.format in ("arcion-json", "arcion-csv") and feed.mode in _ARCION:
        before, after = _ARCION[feed.mode]
        given = {"before_image": before, "after_image": after, **given}
    return given


def schema_of(table: TableName, columns: Columns, shape: Shape, version: int | None) -> TableSchema:
    """The schema of a replica's shape, with the source's own names of types where its schema gives them."""
    known = {place.id: place.declared for place in columns.column_targets.get(version or -1, {}).values()}
    made = []
    for column in shape.columns:
        declared = known.get(column.id)
        original = None if declared is None or declared.type != column.type else declared.original_type
        made.append(Column(column.source_name, column.type, original))
    return TableSchema(tuple(made), tuple(column.source_name for column in shape.key_columns), table)


def _spelled(schema: TableSchema, shape: Shape, spellings: Mapping[str, Spelling]) -> TableSchema:
    """The schema of values that are spelled already."""
    types = {shape.column(number).source_name: spelling.type for number, spelling in spellings.items()}
    return msgspec.structs.replace(
        schema,
        columns=tuple(
            Column(one.name, types[one.name] or one.type, one.original_type) if one.name in types else one
            for one in schema.columns
        ),
    )
