"""Completed changes into the records of a feed: what its mode shows, in its dialect, with the numbers that continue from before."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from changeling.feeds.completion import Completed
from changeling.feeds.feed import Feed
from changeling.feeds.number_spelling import Spelling, spellings
from changeling.feeds.partitions import digest
from changeling.feeds.point_changes import Stamp, Stamped
from changeling.feeds.row_values import Row
from changeling.feeds.topic import RECORDS
from changeling.feeds.users import with_user
from changeling.formats import registry
from changeling.formats.encoding import Encoded, Encoder, Numbering
from changeling.formats.format import Counts
from changeling.formats.options import build
from changeling.formats.transaction_progress import TransactionProgress
from changeling.model import json_text, layout, position
from changeling.model.change import Change, Transaction
from changeling.model.operation import Image, Operation
from changeling.model.table import Column, TableName, TableSchema
from changeling.replicas.shape import Columns, Shape

YDB = ("ydb-json", "ydb-debezium", "ydb-dynamodb")
LEFT_OUT = frozenset({"position", "order", "commit_time", "transaction", "table", "catalog", "schema"})
"""What a format may have no place for in its envelope: the record shows the row all the same."""
SLICE = 20_000
"""Changes that are encoded at once: what is made of them on the way takes several times the memory of their records."""
_NANOS_PER_MS = 1_000_000
_ARCION = {"UPDATES": ("KEY", "UPDATED"), "NEW_AND_OLD_IMAGES": ("ALL", "ALL")}


class Outgoing(NamedTuple):
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
        # The members of images, each with its name as JSON has it before the value.
        self._heads = [(column.id, json_text.head(column.source_name)) for column in shape.columns]
        self._encoders: dict[int, Encoder] = {}

    def encode(self, changes: Sequence[Outgoing], source: str, counts: Counts, before: int) -> Published:
        """The records of some changes; `before` and `counts` say how many the feed has published already."""
        parts, numbered = self._partitions(changes), _numbered(changes)
        found, rejects = [RECORDS.empty_table()], [layout.REJECTS.empty_table()]
        for start in range(0, len(changes), SLICE):
            built = [
                self._change(one, before + number) for number, one in enumerate(islice(numbered, SLICE), start + 1)
            ]
            numbering = Numbering(before + start, counts, progress=[TransactionProgress()] * len(built))
            batch = _batch(built, source)
            for places, encoded in self._encoded(batch, numbering, parts[start : start + SLICE]):
                own = places[np.asarray(encoded.places, np.int64)] + start
                values = encoded.records.column("value")
                if self._feed.user_sids and self._feed.format in YDB:
                    values = self._with_users(values, [changes[place].user for place in own])
                columns = [pa.array(parts[own], pa.int32()), encoded.records.column("key"), values]
                found.append(pa.table([*columns, encoded.records.column("headers")], schema=RECORDS))
                rejects.append(pa.Table.from_batches([encoded.rejects], layout.REJECTS))
            counts = numbering.counts_after(batch)
        return Published(pa.concat_tables(found), pa.concat_tables(rejects), counts, before + len(changes))

    def _partitions(self, changes: Sequence[Outgoing]) -> np.ndarray:
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
            commit_time=stamp.step * _NANOS_PER_MS,
        )
        return self._control(change, source)

    def schema_record(self, stamp: Stamp, source: str, version: int | None) -> bytes:
        """The record that says which columns the table has from now on."""
        schema = msgspec.structs.replace(self._schema, id=version)
        change = Change(
            op=Operation.DDL,
            table=self._table,
            position=position.encode(*stamp),
            commit_time=stamp.step * _NANOS_PER_MS,
            transaction=Transaction(str(stamp.number)),
            schema=schema.to_json(),
        )
        return self._control(change, source)

    def _control(self, change: Change, source: str) -> bytes:
        (record,) = layout.records(self._encoder(0)(_batch([change], source)).records)
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

    def _change(self, one: Outgoing, number: int) -> Change:
        change = one.change
        op, before, after = self._shown(change)
        stamp = one.stamped.stamp
        made = Change(
            op=op,
            table=self._table,
            key=json_text.canonical_key(self._key(change)),
            before=before[0],
            before_image=before[1],
            after=after[0],
            after_image=after[1],
            position=position.encode(*stamp),
            commit_time=one.commit_time,
            transaction=one.transaction,
            schema=self._text,
        )
        return self._placed(made, one, number)

    def _placed(self, made: Change, one: Outgoing, number: int) -> Change:
        """With the position that records of the dialect have."""
        stamp, serial, order = one.stamped
        replace = msgspec.structs.replace
        millis = (stamp.step if one.commit_time is None else one.commit_time // _NANOS_PER_MS) * _NANOS_PER_MS
        if self._feed.format == "ydb-json":
            return replace(made, commit_time=stamp.step * _NANOS_PER_MS, transaction=Transaction(str(stamp.number)))
        if self._feed.format == "ydb-debezium":
            return replace(made, commit_time=max(millis, 0), transaction=Transaction(str(stamp.number)))
        if self._feed.format == "ydb-dynamodb":
            return replace(made, commit_time=max(millis, 0), transaction=None, position=position.encode(number))
        if self._feed.format == "xtdb":
            own = Transaction(str(serial), order=order)
            return replace(made, commit_time=millis, transaction=own, position=position.encode(serial, order))
        return made

    def _shown(self, change: Completed) -> tuple[Operation, tuple[bytes | None, Image], tuple[bytes | None, Image]]:
        """The operation and the images that the dialect needs for the feed's mode."""
        mode, op = self._feed.mode, change.op
        nothing: tuple[bytes | None, Image] = (None, Image.NONE)
        before = nothing if change.before is None else (self._image(change.before), Image.FULL)
        after = nothing if change.after is None else (self._image(change.after), Image.FULL)
        if change.touched:
            return Operation.UPDATE, nothing, nothing
        if op in (Operation.INSERT, Operation.UPDATE, Operation.REPLACE):
            whole = {column.id for column in self._shape.columns}
            mentioned = whole if op is Operation.REPLACE else change.mentioned
            op = Operation.INSERT if change.before is None else Operation.UPDATE
            # An update of YDB's may be that of a new row.
            is_update = op is Operation.UPDATE or self._feed.format == "ydb-json"
            if self._feed.shows_parts and mentioned is not None and is_update and change.after is not None:
                # What the source sent of the row, NULLs among it.
                part = {number: change.after.get(number, b"null") for number in mentioned}
                return Operation.UPDATE, before, (self._part(part), Image.PARTIAL)
        if self._feed.format not in YDB and mode == "NEW_IMAGE":
            before = (json_text.join(self._key(change)), Image.KEY) if op is Operation.DELETE else nothing
        return op, before, after

    def _image(self, row: Row) -> bytes:
        if self._feed.format == "xtdb":
            # A document has no member for what it does not have.
            return self._part(row)
        row = self._spell(row)
        return b"{%b}" % b",".join([head + row.get(number, b"null") for number, head in self._heads])

    def _part(self, row: Row) -> bytes:
        row = self._spell(row)
        return b"{%b}" % b",".join([head + row[number] for number, head in self._heads if number in row])

    def _spell(self, row: Row) -> Row:
        if not self._spellings:
            return row
        spelled = {
            number: one.write(row[number])
            for number, one in self._spellings.items()
            if row.get(number, b"null") != b"null"
        }
        return {**row, **spelled}

    def _key(self, change: Completed) -> list[tuple[str, bytes]]:
        """The columns of the key as the images of the row spell them: that of `change` is spelled as rows are found by it."""
        shown = change.before if change.op is Operation.DELETE else change.after
        row = self._spell(shown or {})
        return [(column.source_name, row.get(column.id, b"null")) for column in self._shape.key_columns]


def _numbered(changes: Sequence[Outgoing]) -> Iterator[Outgoing]:
    """With orders that differ inside of a transaction: a change of the source may be several records, as a truncate is."""
    last: dict[Stamp, int] = {}
    for one in changes:
        stamp, order = one.stamped.stamp, one.stamped.order
        order = max(order, last.get(stamp, -1) + 1)
        last[stamp] = order
        yield one._replace(stamped=one.stamped._replace(order=order))


def _batch(changes: Sequence[Change], source: str) -> pa.RecordBatch:
    return layout.changes_batch(changes, pa.nulls(len(changes), layout.ORIGIN), source, "canonical")


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
    known = {place.id: place.declared for place in columns.places.get(version or -1, {}).values()}
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
