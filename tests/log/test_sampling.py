"""Samples of tables without a schema: which rows of a batch are looked at."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

from changeling.log import schema_sampling
from changeling.log.schema_sampling import ROWS, Sampling
from changeling.model import arrow_layouts
from changeling.model.change import Change
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

SCHEMA = '{"columns":[],"key":[]}'


def changes_of(
    table: TableName | None, count: int = ROWS, column: str = "n", schema: str | None = None
) -> Iterator[Change]:
    for number in range(count):
        yield Change(
            op=Operation.INSERT,
            table=table,
            key=f'{{"id":{number}}}',
            after=f'{{"id":{number},"{column}":1}}',
            after_image=Image.FULL,
            schema=schema,
        )


def batch_of(*changes: Iterator[Change]) -> pa.RecordBatch:
    rows: Sequence[Change] = [change for part in changes for change in part]
    return arrow_layouts.changes_batch(rows, pa.nulls(len(rows), arrow_layouts.ORIGIN), "s", "canonical")


def columns_after(*batches: pa.RecordBatch) -> dict[str, list[str]]:
    sampling = Sampling()
    for batch in batches:
        sampling(batch)
    return {str(found.table): list(found.columns) for found in sampling.found()}


@pytest.mark.parametrize(
    "other", [TableName(None, "b", "users"), TableName("shop", "a", "users"), TableName(None, None, "users")]
)
def test_tables_of_one_name_are_sampled_each(other: TableName) -> None:
    first = batch_of(changes_of(TableName(None, "a", "users")))
    expected = {"a.users": ["id", "n"], str(other): ["id", "other"]}
    assert columns_after(first, batch_of(changes_of(other, 3, "other"))) == expected
    assert columns_after(first, first, batch_of(changes_of(other, 3, "other"))) == expected


def test_a_table_whose_names_others_have() -> None:
    sampled = [TableName(None, "a", "users"), TableName(None, "b", "orders"), TableName(None, "b", "users")]
    batches = [batch_of(changes_of(table)) for table in sampled]
    assert "a.orders" in columns_after(*batches, batch_of(changes_of(TableName(None, "a", "orders"), 1)))


def test_no_more_rows_of_a_table_than_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def kinds_of(images: list[str]) -> dict[str, set[str]]:
        seen.append(len(images))
        return {}

    monkeypatch.setattr(schema_sampling, "kinds_of", kinds_of)
    users, orders = TableName(None, None, "users"), TableName(None, None, "orders")
    batch = batch_of(
        changes_of(users, 600), changes_of(None, 5), changes_of(orders, 10), changes_of(users, 100, schema=SCHEMA)
    )
    columns_after(batch, batch, batch)
    assert seen == [600, 10, 400, 10, 10]


def test_changes_of_no_table_are_passed_over() -> None:
    assert columns_after(batch_of(changes_of(None, 5)), batch_of(iter(()))) == {}
