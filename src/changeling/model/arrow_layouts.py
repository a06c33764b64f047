"""The Arrow layouts of records, changes and rejects, shared by Spark, the log and the kernels."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from changeling.model.change import Change, Origin, Record, Transaction
from changeling.model.errors import Rejected
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

ORIGIN = pa.struct(
    [
        ("file", pa.string()),
        ("ordinal", pa.int64()),
        ("record", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
TABLE = pa.struct([("catalog", pa.string()), ("schema", pa.string()), ("name", pa.string())])
TRANSACTION = pa.struct([("id", pa.string()), ("order", pa.int64()), ("total", pa.int64()), ("complete", pa.bool_())])
HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))

RECORDS = pa.schema(
    [
        ("value", pa.binary()),
        ("key", pa.binary()),
        ("headers", HEADERS),
        ("topic", pa.string()),
        ("origin", ORIGIN),
    ]
)
"""Wire records. A null `value` is a tombstone. `origin` says where a record was found, or whose change was written."""

CHANGES = pa.schema(
    [
        ("source", pa.string()),
        ("table", TABLE),
        ("op", pa.string()),
        ("key", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("before_image", pa.string()),
        ("after_image", pa.string()),
        ("encoding", pa.string()),
        ("position", pa.string()),
        ("commit_time", pa.int64()),
        ("transaction", TRANSACTION),
        ("schema_id", pa.int64()),
        ("origin", ORIGIN),
        ("meta", pa.string()),
        ("schema", pa.string()),
        ("arrived", pa.bool_()),
    ]
)
"""Changes. `schema` is the table's schema on its way to or from the registry; the log keeps only `schema_id`. `arrived` marks
positions that are places of arrival, not the source's own."""

REJECTS = pa.schema(
    [
        ("reason", pa.string()),
        ("feature", pa.string()),
        ("origin", ORIGIN),
        ("raw", pa.binary()),
        ("key", pa.binary()),
        ("headers", HEADERS),
        ("topic", pa.string()),
    ]
)
"""Records that could not be read, complete, or changes that could not be written (`feature` names what does not fit)."""

# Calling an enumeration costs ten times a dictionary lookup, and this happens for every change.
_OPERATIONS = {operation.value: operation for operation in Operation}
_IMAGES = {image.value: image for image in Image}


def records(batch: pa.RecordBatch) -> list[Record]:
    """The wire records of a batch."""
    values, keys, topics = (batch.column(name).to_pylist() for name in ("value", "key", "topic"))
    column = batch.column("headers")
    if column.null_count == len(column):
        return [Record(value, key, (), topic) for value, key, topic in zip(values, keys, topics, strict=True)]
    headers = [tuple((pair["name"], pair["value"]) for pair in pairs or ()) for pairs in column.to_pylist()]
    return [Record(*parts) for parts in zip(values, keys, headers, topics, strict=True)]


def records_batch(records: Sequence[Record], origin: pa.Array) -> pa.RecordBatch:
    """A batch of wire records, each with the origin at its place."""
    headers = [[{"name": name, "value": value} for name, value in record.headers] or None for record in records]
    return pa.record_batch(
        [
            pa.array([record.value for record in records], pa.binary()),
            pa.array([record.key for record in records], pa.binary()),
            pa.array(headers, HEADERS),
            pa.array([record.topic for record in records], pa.string()),
            origin,
        ],
        schema=RECORDS,
    )


def rejects_batch(
    records: pa.RecordBatch, reasons: dict[int, str], features: Sequence[str | None] | None = None
) -> pa.RecordBatch:
    """The records at these places as rejects; `features` say what of each change had no place."""
    rows = records.take(pa.array(list(reasons), pa.int64())) if reasons else records.slice(0, 0)
    return pa.record_batch(
        [
            pa.array(list(reasons.values()), pa.string()),
            pa.array(features or [None] * len(reasons), pa.string()),
            *(rows.column(name) for name in ("origin", "value", "key", "headers", "topic")),
        ],
        schema=REJECTS,
    )


def origins(batch: pa.RecordBatch) -> list[Origin]:
    """The origin of each row of a batch that has one."""
    return [Origin(*row) for row in _rows(batch.column("origin"))]


def _rows(column: pa.StructArray) -> Iterator[tuple[Any, ...]]:
    """The fields of each struct; all None where it is null. Many times quicker than a dictionary for each row."""
    return zip(*(field.to_pylist() for field in column.flatten()), strict=True)


def changes_batch(changes: Sequence[Change], origin: pa.Array, source: str, encoding: str) -> pa.RecordBatch:
    """A batch of changes that all come from one source in one encoding.

    Raises `Rejected` where a text is not UTF-8; the caller finds out which by retrying with fewer.
    """
    count = len(changes)
    try:
        return pa.record_batch(
            [
                _constant(source, count),
                _tables([change.table for change in changes]),
                pa.array([change.op for change in changes], pa.string()),
                pa.array([change.key for change in changes], pa.string()),
                pa.array([change.before for change in changes], pa.string()),
                pa.array([change.after for change in changes], pa.string()),
                pa.array([change.before_image for change in changes], pa.string()),
                pa.array([change.after_image for change in changes], pa.string()),
                _constant(encoding, count),
                pa.array([change.position for change in changes], pa.string()),
                pa.array([change.commit_time for change in changes], pa.int64()),
                _transactions([change.transaction for change in changes]),
                pa.nulls(count, pa.int64()),
                origin,
                pa.array([change.meta for change in changes], pa.string()),
                pa.array([change.schema for change in changes], pa.string()),
                pa.array([change.arrived for change in changes], pa.bool_()),
            ],
            schema=CHANGES,
        )
    except (pa.ArrowInvalid, UnicodeError, OverflowError) as error:
        raise Rejected(f"a value does not fit the change: {error}") from None


def _constant(value: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), count)


def _tables(tables: list[TableName | None]) -> pa.Array:
    distinct: dict[TableName | None, int] = {}
    places = [distinct.setdefault(table, len(distinct)) for table in tables]
    return tables_array(list(distinct)).take(pa.array(places, pa.int32()))


def tables_array(tables: Sequence[TableName | None]) -> pa.Array:
    """Table names as a column."""
    return pa.array([None if table is None else _fields(table) for table in tables], TABLE)


def _fields(table: TableName) -> dict[str, str | None]:
    return {"catalog": table.catalog, "schema": table.schema, "name": table.name}


def _transactions(transactions: list[Transaction | None]) -> pa.Array:
    if not any(transactions):
        return pa.nulls(len(transactions), TRANSACTION)
    absent = Transaction("")
    found = [transaction or absent for transaction in transactions]
    return pa.StructArray.from_arrays(
        [
            pa.array([transaction.id for transaction in found], pa.string()),
            pa.array([transaction.order for transaction in found], pa.int64()),
            pa.array([transaction.total for transaction in found], pa.int64()),
            pa.array([transaction.complete for transaction in found], pa.bool_()),
        ],
        fields=list(TRANSACTION),
        mask=pa.array([transaction is None for transaction in transactions], pa.bool_()),
    )


def transactions(column: pa.StructArray | pa.ChunkedArray) -> list[Transaction | None]:
    """The transaction of each row; None where it has none."""
    return [None if row[0] is None else Transaction(*row) for row in _rows(column)]


def changes(batch: pa.RecordBatch) -> list[Change]:
    """The changes of a batch; source, encoding and origin stay in their columns."""
    names = (
        "key",
        "before",
        "after",
        "before_image",
        "after_image",
        "position",
        "commit_time",
        "meta",
        "schema",
        "arrived",
    )
    columns = [batch.column(name).to_pylist() for name in names]
    known: dict[tuple[Any, ...], TableName | None] = {(None, None, None): None}
    tables = [
        known[row] if row in known else known.setdefault(row, TableName(*row)) for row in _rows(batch.column("table"))
    ]
    return [
        Change(
            op=_OPERATIONS[op],
            table=table,
            key=key,
            before=before,
            after=after,
            before_image=_IMAGES[before_image],
            after_image=_IMAGES[after_image],
            position=position,
            commit_time=commit_time,
            transaction=transaction,
            meta=meta,
            schema=schema,
            arrived=bool(arrived),
        )
        for op, table, transaction, (
            key,
            before,
            after,
            before_image,
            after_image,
            position,
            commit_time,
            meta,
            schema,
            arrived,
        ) in zip(
            batch.column("op").to_pylist(),
            tables,
            transactions(batch.column("transaction")),
            zip(*columns, strict=True),
            strict=True,
        )
    ]


def conform(batch: pa.RecordBatch, layout: pa.Schema) -> pa.RecordBatch:
    """A batch that others read, cast to exactly this layout: undoes their nullability and large types."""
    return pa.record_batch([_cast(batch.column(field.name), field.type) for field in layout], schema=layout)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)
