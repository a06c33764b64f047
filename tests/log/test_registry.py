"""The schema registry: which versions there are, what their numbers are, and what each policy does with a new one."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from changeling.log.schema_registry import CarriedSchemas, Policy, Registry, Version
from changeling.log.task_result import SeenSchema, TableSample
from changeling.model.errors import ChangelingError
from changeling.model.table import TableName, TableSchema
from tests.log.test_evolution import schema

USERS = TableName("shop", "public", "users")
ORDERS = TableName("shop", "public", "orders")
A = schema("id int64, n int32", "id")
B = schema("id int64, n int32, note string", "id")
C = schema("id int64, n int64, note string", "id")
CLASH = schema("id int64, n string", "id")


def seen(
    given: TableSchema, first: str, last: str | None = None, table: TableName = USERS, arrived: bool = False
) -> SeenSchema:
    """Records of positions `first` to `last` carried this schema."""
    return SeenSchema(table, given.to_json(), first, last or first, arrived)


def policy(chosen: Policy) -> Callable[[TableName], Policy]:
    return lambda table: chosen


def learn(registry: Registry, *batch: SeenSchema, by: Policy = "evolve", furthest: str | None = None) -> list[Version]:
    """What a batch adds; `furthest` is the last position that the log has of the newest version."""
    return registry.register_carried("bus", batch, policy(by), lambda version: furthest, CarriedSchemas())


def version(number: int, given: TableSchema, position: str | None, **parts: Any) -> Version:
    """A version of `users` as a record carried it, unless `parts` say otherwise."""
    fields = {
        "source": "bus",
        "table": USERS,
        "version": number,
        "origin": "carried",
        "status": "accepted",
        "note": None,
        **parts,
    }
    return Version(id=number, schema=given, position=position, **fields)


def test_each_change_of_a_schema_is_a_version_with_its_position_and_what_it_changes() -> None:
    registry = Registry()
    assert learn(registry, seen(A, "011", "019")) == [version(1, A, "011")]
    assert learn(registry, seen(A, "0220"), seen(B, "0230", "0240")) == [version(2, B, "0230", note="adds note")]
    assert learn(registry, seen(C, "0250")) == [version(3, C, "0250", note="widens n from int32 to int64")]
    dropped = schema("id int64, n int64", "id")
    assert learn(registry, seen(dropped, "0260")) == [version(4, dropped, "0260", note="drops note")]
    renamed = schema("id int64, m int64", "id")
    assert learn(registry, seen(renamed, "0270")) == [version(5, renamed, "0270", note="renames n to m")]
    assert registry.of("bus", USERS) == registry.versions


def test_the_versions_of_one_batch_are_numbered_in_the_order_of_their_positions() -> None:
    registry = Registry()
    found = learn(registry, seen(C, "0230"), seen(A, "011"), seen(B, "0220"))
    expected = [
        version(1, A, "011"),
        version(2, B, "0220", note="adds note"),
        version(3, C, "0230", note="widens n from int32 to int64"),
    ]
    assert found == expected


def test_tables_and_sources_have_versions_of_their_own_and_numbers_in_common() -> None:
    registry = Registry()
    learn(registry, seen(A, "011"), seen(A, "012", table=ORDERS))
    registry.register_carried("other", [seen(B, "011")], policy("evolve"), lambda version: None, CarriedSchemas())
    learn(registry, seen(B, "013", table=ORDERS))
    assert registry.versions == [
        version(1, A, "011"),
        version(2, A, "012", table=ORDERS, version=1),
        version(3, B, "011", source="other", version=1),
        version(4, B, "013", table=ORDERS, version=2, note="adds note"),
    ]


def test_a_late_record_with_the_old_schema_alters_nothing() -> None:
    registry = Registry([version(1, A, "0210"), version(2, B, "0230", note="adds note")])
    assert learn(registry, seen(A, "0220"), furthest="0240") == []
    assert learn(registry, seen(A, "011"), furthest="0240") == []
    assert registry.versions == [version(1, A, "0210"), version(2, B, "0230", note="adds note")]


def test_a_late_schema_that_nobody_knew_takes_its_place_behind_the_newer_one() -> None:
    registry = Registry([version(1, B, "0230")])
    assert learn(registry, seen(A, "0210"), furthest="0240") == [version(2, A, "0210")]
    assert registry.of("bus", USERS) == [version(2, A, "0210"), version(1, B, "0230")]
    assert learn(registry, seen(C, "0250")) == [version(3, C, "0250", note="widens n from int32 to int64")]


def test_an_old_schema_that_comes_back_behind_everything_else_is_a_new_version() -> None:
    registry = Registry([version(1, A, "0210"), version(2, B, "0230", note="adds note")])
    assert learn(registry, seen(A, "0250", "0260"), furthest="0240") == [version(3, A, "0250", note="drops note")]
    assert learn(registry, seen(A, "0261"), furthest="0260") == []
    assert learn(registry, seen(A, "0251"), furthest="0260") == []


def test_an_old_schema_may_come_back_in_the_batch_that_brought_the_newer_one() -> None:
    registry = Registry([version(1, A, "0210")])
    found = learn(registry, seen(B, "0230", "0240"), seen(A, "0241", "0250"))
    assert found == [version(2, B, "0230", note="adds note"), version(3, A, "0241", note="drops note")]


@pytest.mark.parametrize(
    ("batch", "furthest"),
    [
        ([seen(A, "0250", "0260")], "0255"),
        ([seen(A, "0250", "0260")], "0250"),
        ([seen(A, "0250", "0260"), seen(B, "0245", "0255")], "0240"),
        ([seen(A, "0250", "0260"), seen(B, "0255", "0265")], "0240"),
        ([seen(A, "0250", "0260", arrived=True)], "0240"),
    ],
    ids=["log-beyond", "log-there", "batch-around", "batch-behind", "by-arrival"],
)
def test_an_old_schema_that_is_mixed_with_the_newer_one_is_none(batch: list[SeenSchema], furthest: str) -> None:
    registry = Registry([version(1, A, "0210"), version(2, B, "0230", note="adds note")])
    assert learn(registry, *batch, furthest=furthest) == []


BOTH = """
  version 1: (id int64 key, n int32)
  new:       (id int64 key, n string)"""


def test_evolve_keeps_a_conflict_aside_and_says_why() -> None:
    registry = Registry([version(1, A, "0210")])
    note = (
        "the schema of shop.public.users changed in a way that does not fit its rows (column n was int32 and is string):"
        + BOTH
    )
    aside = version(2, CLASH, "0220", status="aside", note=note)
    assert learn(registry, seen(CLASH, "0220")) == [aside]
    assert learn(registry, seen(CLASH, "0230"), seen(A, "0240"), furthest=None) == []
    assert registry.known("bus")[USERS, CLASH.to_json()] == note
    # What comes next is compared with the version that its rows have, not with the quarantined one.
    assert learn(registry, seen(B, "0250")) == [version(3, B, "0250", note="adds note")]


def test_evolve_keeps_another_key_aside() -> None:
    registry = Registry([version(1, A, "0210")])
    other = schema("id int64, n int32", "n")
    note = (
        "the schema of shop.public.users changed in a way that does not fit its rows (the key was (id) and is (n)):\n"
        "  version 1: (id int64 key, n int32)\n"
        "  new:       (id int64, n int32 key)"
    )
    assert learn(registry, seen(other, "0220")) == [version(2, other, "0220", status="aside", note=note)]


@pytest.mark.parametrize(
    ("new", "note"), [(B, "adds note"), (CLASH, "column n was int32 and is string")], ids=["fitting", "conflict"]
)
def test_ignore_notes_a_version_and_lets_its_records_in(new: TableSchema, note: str) -> None:
    registry = Registry([version(1, A, "0210")])
    assert learn(registry, seen(new, "0220"), by="ignore") == [version(2, new, "0220", status="ignored", note=note)]
    assert registry.known("bus")[USERS, new.to_json()] == 2


def test_fail_shows_both_versions() -> None:
    registry = Registry([version(1, A, "0210")])
    with pytest.raises(ChangelingError) as caught:
        learn(registry, seen(CLASH, "0220"), by="fail")
    assert str(caught.value) == (
        "source bus: the schema of shop.public.users changed (column n was int32 and is string), and its policy is to fail:"
        + BOTH
        + "\nSet `schema: evolve` for this table to take the new version, or `schema: ignore` to keep the old one."
    )
    assert learn(registry, seen(A, "0230"), by="fail") == []


def test_fail_keeps_no_version_of_the_batch_that_it_stopped() -> None:
    registry = Registry([version(1, A, "0210")])
    with pytest.raises(ChangelingError):
        learn(registry, seen(A, "0219", table=ORDERS), seen(B, "0220"), by="fail")
    assert registry.versions == [version(1, A, "0210")]


def test_what_was_kept_aside_is_let_in_once_the_policy_is_to_ignore() -> None:
    registry = Registry([version(1, A, "0210")])
    learn(registry, seen(CLASH, "0220"))
    note = "column n was int32 and is string"
    ignored = version(3, CLASH, "0215", status="ignored", note=note)
    assert learn(registry, seen(CLASH, "0215", "0220"), by="ignore") == [ignored]
    assert learn(registry, seen(CLASH, "0215", "0220"), by="ignore") == []
    assert registry.known("bus")[USERS, CLASH.to_json()] == 3


def test_every_spelling_of_a_version_has_its_number() -> None:
    registry = Registry([version(1, A, "0210"), version(2, B, "0230")])
    spellings = [
        TableSchema(B.columns, B.key, table, number).to_json() for table in (None, USERS) for number in (None, 2)
    ]
    known = registry.known("bus")
    assert [known[USERS, text] for text in spellings] == [2] * 4
    assert registry.known("other") == {}
    assert {text: known.get((ORDERS, text)) for text in spellings} == dict.fromkeys(spellings)


def test_a_record_may_name_a_version_of_another_table_or_source_by_its_number() -> None:
    registry = Registry([version(1, A, "0210")])
    named = TableSchema(A.columns, A.key, USERS, 1)
    in_other = seen(named, "0240", table=ORDERS)
    assert learn(registry, in_other) == [version(2, A, "0240", table=ORDERS, version=1)]
    assert registry.known("bus", [in_other])[ORDERS, in_other.schema] == 2
    from_other = registry.register_carried(
        "other", [seen(named, "0250")], policy("evolve"), lambda version: None, CarriedSchemas(declared=(named,))
    )
    assert from_other == [version(3, A, None, source="other", version=1, origin="declared")]
    assert registry.known("other", [seen(named, "0250")])[USERS, in_other.schema] == 3
    assert registry.known("bus", [seen(named, "0250")])[USERS, in_other.schema] == 1


def test_each_number_is_that_of_its_own_version() -> None:
    aside = version(2, CLASH, "0220", status="aside", note="does not fit")
    assert Registry([version(1, A, "0210"), aside]).by_number() == (
        TableSchema(A.columns, A.key, aside.table, 1),
        TableSchema(CLASH.columns, CLASH.key, aside.table, 2),
    )


def test_a_number_of_the_source_itself_is_none_of_the_registry() -> None:
    registry = Registry([version(1, A, "0210")])
    same = seen(TableSchema(A.columns, A.key, None, 1), "0240", table=ORDERS)
    assert learn(registry, same) == [version(2, A, "0240", table=ORDERS, version=1)]
    assert registry.known("bus", [same])[ORDERS, same.schema] == 2


def test_each_table_that_a_rule_with_a_number_fits_has_a_version_of_its_own() -> None:
    named = TableSchema(A.columns, A.key, TableName(None, None, "users"), 7)
    registry = Registry([version(7, A, None, table=named.table, version=1, origin="declared")])
    fitting = seen(named, "0240")
    found = registry.register_carried(
        "bus", [fitting], policy("evolve"), lambda version: None, CarriedSchemas(declared=(named,))
    )
    assert found == registry.of("bus", USERS) == [version(8, A, None, version=1, origin="declared")]
    assert registry.known("bus", [fitting])[USERS, fitting.schema] == 8
    assert learn(registry, fitting) == []


def test_numbers_that_are_stored_as_text_are_reported_once_with_what_to_write() -> None:
    registry, table = Registry([]), TableName("shop", None, "odd.users")
    sampled = TableSample(table, {"id": ["int"], "price: net": ["number"], "name": ["text"]}, ("id",))
    (first,) = registry.register_undeclared("s", sampled)
    note, _, line = (first.note or "").partition(" write under tables: ")
    assert note == (
        "price: net: numbers of more digits than a decimal or a double has, stored as text. For a column of doubles, which rounds "
        "them, or of a decimal, which quarantines those that do not fit,"
    )
    assert yaml.safe_load(line) == [{"name": 'shop."odd.users"', "columns": {"price: net": "double"}}]
    assert registry.register_undeclared("s", sampled) == []
    (second,) = registry.register_undeclared("s", TableSample(table, {"age": ["int"]}, ("id",)))
    assert second.note == "adds age"
    (third,) = registry.register_undeclared("s", TableSample(table, {"age": ["number"]}, ("id",)))
    assert third.note is not None
    assert third.note.startswith("widens age from int64 to decimal; age: numbers of more digits")
