"""Reads the rows of a table under a snapshot: ranges of its blocks, as JSON objects."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from psycopg import sql

from changeling.model.errors import ChangelingError
from changeling.postgres.catalog import Connection
from changeling.postgres.column_rules import ColumnRules
from changeling.postgres.copy_rows import lines, split, unescaped
from changeling.postgres.images import images, keys
from changeling.postgres.published_table import PublishedTable
from changeling.postgres.relation import Relation
from changeling.postgres.tuples import texts

ROWS = pa.schema(
    [
        ("key", pa.string()),
        ("after", pa.string()),
        ("schema", pa.dictionary(pa.int32(), pa.string())),
        ("number", pa.int64()),
    ]
)
"""Rows: the canonical key (null where the table has none), the full row, its schema, its number in the range from 1."""

# Only a TID scan reads just the range, and in order; the planner may consider another scan cheaper.
_PLAN = {
    "enable_tidscan": "on",
    "enable_seqscan": "off",
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "enable_bitmapscan": "off",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
}
_ROWS_AT_ONCE = 20_000
_BYTES_AT_ONCE = 32 * 1024 * 1024


class Blocks(NamedTuple):
    """A range of the blocks of a leaf; without an end, to its last one."""

    first: int
    end: int | None


EVERY_BLOCK = Blocks(0, None)


def read_rows(
    connection: Connection,
    relation: Relation,
    leaf: sql.Composable,
    blocks: Blocks = EVERY_BLOCK,
    rules: ColumnRules | None = None,
    condition: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a leaf in a range of its blocks, in physical order, in layout `ROWS`.

    The connection is in a transaction, whose snapshot is used; `relation` has the columns, which the leaf may have in
    another order. `condition` is SQL. Raises `psycopg.Error` where the server reports an error, `UsageError` where
    rules hide the key. If it is not read to the end, the transaction fails. The planner's settings are changed until
    the transaction ends.
    """
    table = PublishedTable(relation, rules)
    wanted = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
    query = sql.SQL("COPY (SELECT {} {}) TO STDOUT").format(wanted, _range(leaf, blocks, condition))
    dictionary = pa.array([table.schema_text], pa.string())
    for name, value in _PLAN.items():
        connection.execute("SELECT set_config(%s, %s, true)", (name, value))
    before = 0
    for found in lines(connection, query.as_bytes(connection), _ROWS_AT_ONCE, _BYTES_AT_ONCE):
        key, after = _images(table, found)
        count = len(found)
        schema = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), dictionary)
        number = pa.array(np.arange(before + 1, before + count + 1))
        yield pa.record_batch([key, after, schema, number], schema=ROWS)
        before += count


def _range(leaf: sql.Composable, blocks: Blocks, condition: str | None) -> sql.Composed:
    """The part of a query after its columns."""
    found = sql.SQL("FROM ONLY {} WHERE ctid >= {}::tid").format(leaf, f"({blocks.first},0)")
    if blocks.end is not None:
        found += sql.SQL(" AND ctid < {}::tid").format(f"({blocks.end},0)")
    if condition is not None:
        # The newline ends a comment that the condition may end with.
        found += sql.SQL(" AND (") + sql.SQL(condition) + sql.SQL("\n)")
    return found


def _images(table: PublishedTable, found: list[memoryview]) -> tuple[pa.StringArray, pa.StringArray]:
    """The keys and objects of lines."""
    count = len(found)
    try:
        data, fields = split(found, len(table.columns))
        members = []
        for column, field in zip(table.columns, fields, strict=True):
            escaped, places = texts(data, field)
            members.append(column.member(unescaped(escaped), places))
        after, _ = images(members, count)
        key = keys(table.spelled(members), count) if table.key else pa.nulls(count, pa.string())
    except (ValueError, pa.ArrowException) as error:
        raise ChangelingError(f"{table.name}: a value cannot be read: {error}") from None
    return key, after
