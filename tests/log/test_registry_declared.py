"""The schema registry: what users declare, what samples show, and what the table `schemas` brings back."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.iceberg.conditions import EVERYTHING, Condition
from changeling.iceberg.lake import Lake
from changeling.iceberg.table_definition import TableDefinition
from changeling.log import log_tables
from changeling.log.change_log import Log
from changeling.log.schema_registry import CarriedSchemas, Registry, Version
from changeling.log.schema_sampling import kinds_of
from changeling.log.task_result import TableSample
from changeling.model.errors import ChangelingError
from changeling.model.table import Column, TableSchema
from tests.log.test_evolution import schema
from tests.log.test_registry import CLASH, ORDERS, USERS, A, B, learn, policy, seen, version


def with_id(given: TableSchema, number: int) -> TableSchema:
    return msgspec.structs.replace(given, id=number)


def declared(number: int, given: TableSchema, **parts: Any) -> Version:
    return version(number, given, None, **{"origin": "declared", **parts})


def test_what_is_declared_holds_from_the_start_and_is_registered_once() -> None:
    registry = Registry()
    assert registry.register_declared("bus", USERS, A, "evolve") == [declared(1, A)]
    assert registry.register_declared("bus", USERS, A, "evolve") == []
    assert registry.register_declared("bus", USERS, B, "evolve") == [declared(2, B, note="adds note")]
    assert registry.register_declared("bus", USERS, A, "evolve") == []
    assert registry.register_declared("other", USERS, A, "evolve") == [declared(3, A, source="other", version=1)]


def test_a_schema_that_is_declared_for_whatever_table_comes_holds_from_the_start() -> None:
    registry = Registry()
    batch = [seen(A, "0210"), seen(A, "0220", table=ORDERS)]
    found = registry.register_carried(
        "bus", batch, policy("evolve"), lambda version: None, CarriedSchemas(declared=(A,))
    )
    assert found == [declared(1, A), declared(2, A, table=ORDERS, version=1)]


def test_what_was_declared_holds_again_from_where_it_returns() -> None:
    registry = Registry()
    registry.register_declared("bus", USERS, A, "evolve")
    assert learn(registry, seen(B, "0210")) == [version(2, B, "0210", note="adds note")]
    returned = [seen(A, "0220")]
    found = registry.register_carried(
        "bus", returned, policy("evolve"), lambda version: "0210", CarriedSchemas(declared=(A,))
    )
    assert found == [version(3, A, "0220", note="drops note")]
    assert (
        registry.register_carried(
            "bus", [seen(A, "0230")], policy("evolve"), lambda version: "0220", CarriedSchemas(declared=(A,))
        )
        == []
    )


def test_a_record_may_carry_what_was_declared() -> None:
    registry = Registry()
    registry.register_declared("bus", USERS, A, "evolve")
    assert learn(registry, seen(A, "0210")) == []
    assert registry.known("bus")[USERS, A.to_json()] == 1


def test_a_declared_number_is_kept_and_the_next_ones_are_higher() -> None:
    registry = Registry()
    learn(registry, seen(A, "0210"))
    assert registry.register_declared("bus", ORDERS, with_id(A, 7), "evolve") == [
        declared(7, A, table=ORDERS, version=1)
    ]
    assert learn(registry, seen(B, "0220")) == [version(8, B, "0220", version=2, note="adds note")]
    assert registry.register_declared("bus", ORDERS, with_id(A, 7), "evolve") == []
    assert registry.register_declared("bus", ORDERS, with_id(B, 9), "evolve") == [
        declared(9, B, table=ORDERS, version=2, note="adds note")
    ]
    assert [known.id for known in registry.versions] == [1, 7, 8, 9]


def test_a_number_that_is_declared_for_all_sources_is_one_version() -> None:
    registry = Registry()
    assert registry.register_declared("bus", USERS, with_id(A, 7), "evolve") == [declared(7, A, version=1)]
    assert registry.register_declared("other", USERS, with_id(A, 7), "evolve") == []
    assert registry.versions == [declared(7, A, version=1)]


def test_a_declared_number_that_is_taken_is_refused_and_any_other_is_kept() -> None:
    registry = Registry([version(3, A, "0210", version=1)])
    with pytest.raises(ChangelingError) as caught:
        registry.register_declared("bus", ORDERS, with_id(B, 3), "evolve")
    assert str(caught.value) == (
        "table shop.public.orders: the schema id 3 is that of shop.public.users, version 1, already"
    )
    assert [made.id for made in registry.register_declared("bus", ORDERS, with_id(B, 2), "evolve")] == [2]


def test_a_declaration_that_does_not_fit_is_kept_aside_or_fails() -> None:
    registry = Registry()
    registry.register_declared("bus", USERS, A, "evolve")
    both = "\n  version 1: (id int64 key, n int32)\n  new:       (id int64 key, n string)"
    with pytest.raises(ChangelingError) as caught:
        registry.register_declared("bus", USERS, CLASH, "fail")
    assert str(caught.value) == (
        "source bus: the schema of shop.public.users changed (column n was int32 and is string), and its policy is to fail:"
        f"{both}\nSet `schema: evolve` for this table to take the new version, or `schema: ignore` to keep the old one."
    )
    note = (
        "the schema of shop.public.users changed in a way that does not fit its rows (column n was int32 and is string):"
        + both
    )
    assert registry.register_declared("bus", USERS, CLASH, "evolve") == [declared(2, CLASH, status="aside", note=note)]


def sampled(**columns: str) -> TableSample:
    """A sample that shows these columns: the kinds of values in each, separated by blanks."""
    return TableSample(USERS, {name: kinds.split() for name, kinds in columns.items()}, ("id",))


def inferred(number: int, columns: str, note: str | None = None) -> Version:
    """A version of these columns, whose whole numbers and decimals are doubles as well unless a `!` follows."""
    plain = schema(columns.replace("!", ""), "id")
    marked = {part.split(" ")[0] for part in columns.split(", ") if part.endswith("!")}
    exact = [
        msgspec.structs.replace(column, original_type="double")
        if column.name not in marked and (column.type == "int64" or column.type.startswith("decimal("))
        else column
        for column in plain.columns
    ]
    return version(number, TableSchema(tuple(exact), plain.key), None, origin="inferred", note=note)


def advised(column: str) -> str:
    return (
        f"{column}: numbers of more digits than a decimal or a double has, stored as text. For a column of doubles, which rounds "
        "them, or of a decimal, which quarantines those that do not fit, write under tables: "
        f'- {{name: "shop.public.users", columns: {{"{column}": "double"}}}}'
    )


def test_samples_give_the_narrowest_type_of_what_they_show() -> None:
    shown = sampled(id="int", flag="bool", price="int number", name="text", doc="json", mixed="bool text", empty="")
    columns = "id int64, flag bool, price decimal, name string, doc json, mixed json"
    assert Registry().register_sampled("bus", [shown]) == [inferred(1, columns, advised("price"))]


def test_samples_only_ever_widen() -> None:
    registry = Registry()
    registry.register_sampled("bus", [sampled(id="int", n="int", name="text")])
    assert registry.register_sampled("bus", [sampled(id="int")]) == []
    assert registry.register_sampled("bus", [sampled(name="text", n="int", id="int")]) == []
    decimal = inferred(2, "id int64, n decimal, name string", f"widens n from int64 to decimal; {advised('n')}")
    assert registry.register_sampled("bus", [sampled(n="number")]) == [decimal]
    assert registry.register_sampled("bus", [sampled(n="int")]) == []
    more = inferred(3, "id int64, n decimal, name string, note string", "adds note")
    assert registry.register_sampled("bus", [sampled(note="text")]) == [more]
    mixed = inferred(4, "id int64, n json, name string, note string", "column n was decimal and is json")
    assert registry.register_sampled("bus", [sampled(n="text")]) == [mixed]
    assert registry.register_sampled("bus", [sampled(n="int number text json", name="text")]) == []


def test_numbers_get_the_narrowest_type_that_holds_all_of_them() -> None:
    registry = Registry()
    registry.register_sampled("bus", [sampled(id="int", n="decimal(3,1)", d="double")])
    wider = inferred(2, "id int64, n decimal(5,2), d float64", "widens n from decimal(3,1) to decimal(5,2)")
    assert registry.register_sampled("bus", [sampled(n="decimal(5,2)")]) == [wider]
    whole = inferred(3, "id int64, n decimal(21,2), d float64", "widens n from decimal(5,2) to decimal(21,2)")
    assert registry.register_sampled("bus", [sampled(n="int")]) == [whole]
    assert registry.register_sampled("bus", [sampled(n="decimal(20,1)", d="int")]) == []
    long = inferred(4, "id int64!, n decimal(21,2), d float64")
    assert registry.register_sampled("bus", [sampled(id="int long")]) == [long]
    double = inferred(5, "id int64!, n float64, d float64", "column n was decimal(21,2) and is float64")
    assert registry.register_sampled("bus", [sampled(n="double")]) == [double]
    notes = f"column d was float64 and is decimal; {advised('d')}"
    assert registry.register_sampled("bus", [sampled(d="decimal(20,3) long")]) == [
        inferred(6, "id int64!, n float64, d decimal", notes)
    ]
    wide = inferred(7, "id int64!, n float64, d decimal, e float64", "adds e")
    assert registry.register_sampled("bus", [sampled(e="int decimal(20,20)")]) == [wide], (
        "40 digits, and all of them are doubles"
    )
    last = registry.register_sampled("bus", [sampled(id="double")])
    assert [column.type for column in last[0].schema.columns] == ["decimal", "float64", "decimal", "float64"]


NUMBERS = st.one_of(
    st.integers(-(10**40), 10**40).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str).map(str.lower),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["0", "-0", "-0.0", "1.0", "1.50", "1e300", "1e-7", "1e400", "1e-400", "1e20000"]),
    st.sampled_from(["9007199254740993", "0.30000000000000004", "9223372036854775808"]),
)


@given(values=st.lists(NUMBERS | st.just('"text"'), min_size=1, max_size=6), data=st.data())
def test_the_type_does_not_depend_on_the_order_and_the_batches_of_values(
    values: list[str], data: st.DataObject
) -> None:
    def learned(batches: Sequence[Sequence[str]]) -> tuple[Column, ...]:
        registry = Registry()
        for batch in batches:
            images = [f'{{"n": {value}}}' for value in batch]
            kinds = {name: sorted(found) for name, found in kinds_of(images).items()}
            registry.register_sampled("bus", [TableSample(USERS, kinds)])
        return registry.versions[-1].schema.columns

    shuffled = data.draw(st.permutations(values))
    cut = data.draw(st.integers(0, len(values)))
    assert (
        learned([values])
        == learned([[value] for value in shuffled])
        == learned([part for part in (shuffled[:cut], shuffled[cut:]) if part])
    )


def test_nothing_is_inferred_of_a_table_whose_schema_was_declared() -> None:
    registry = Registry([version(1, A, "0210")])
    assert registry.register_sampled("bus", [sampled(id="int", more="text")]) == []


def test_a_schema_that_is_declared_later_is_not_compared_with_what_was_inferred() -> None:
    registry = Registry()
    registry.register_sampled("bus", [sampled(id="text", n="text")])
    assert learn(registry, seen(A, "0210"), by="fail") == [version(2, A, "0210")]
    assert (USERS, schema("id string, n string", "id").to_json()) not in registry.known("bus")


class Store(Lake):
    """Keeps the rows of tables in memory, and loses the connection on demand."""

    def __init__(self) -> None:
        self.kept: list[dict[str, object]] = []
        self.connected = True

    def create(self, tables: Sequence[TableDefinition], version: int) -> None:
        pass

    def summaries(self, table: TableDefinition, tag: str | None = None) -> Iterator[dict[str, str]]:
        return iter(())

    def rows(self, table: TableDefinition, where: Condition = EVERYTHING) -> pa.Table:
        return pa.Table.from_pylist(self.kept if table is log_tables.SCHEMAS else [], table.columns)

    def append_rows(
        self,
        table: TableDefinition,
        rows: list[dict[str, object]],
        moment: datetime,
        summary: Mapping[str, str] | None = None,
    ) -> None:
        if not self.connected:
            raise ChangelingError("the store cannot be reached")
        self.kept += rows


def test_the_registry_comes_back_from_its_rows() -> None:
    odd = TableSchema((Column("a.b", "array<decimal(10,2)>", "pg:numeric[]", False),), ("a.b",))
    log = Log(Store())
    log.register(lambda registry: learn(registry, seen(A, "011"), seen(B, "012")))
    log.register(lambda registry: learn(registry, seen(odd, "013", table=ORDERS), seen(CLASH, "014")))
    log.register(lambda registry: registry.register_declared("other", USERS, with_id(A, 99), "evolve"))
    log.register(lambda registry: registry.register_sampled("third", [sampled(id="int", n="text")]))
    again = Log(log.lake).registry
    assert again.versions == log.registry.versions
    assert [known.status for known in again.versions] == [
        "accepted",
        "accepted",
        "accepted",
        "aside",
        "accepted",
        "accepted",
    ]
    assert [known.id for known in again.versions] == [1, 2, 3, 4, 99, 100]


def test_versions_that_could_not_be_written_down_are_written_at_the_next_try() -> None:
    store = Store()
    log = Log(store)
    store.connected = False
    with pytest.raises(ChangelingError):
        log.register(lambda registry: learn(registry, seen(A, "011")))
    store.connected = True
    log.register(lambda registry: learn(registry, seen(A, "011")))
    assert Log(store).registry.versions == [version(1, A, "011")]
