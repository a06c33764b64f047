"""Streams that the tests make up, read by columns, are what they are read row by row, however they are cut."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.model.change import Change
from changeling.model.errors import ChangelingError
from changeling.model.operation import Operation
from changeling.model.table import TableName
from changeling.postgres import pgoutput
from changeling.postgres.frames import relation as relation_of
from changeling.postgres.pgoutput import PgOutput
from changeling.postgres.relation import PgColumn, PgType, Relation
from tests.postgres import pgoutput_messages as wire
from tests.postgres.printed_values import PRINTED
from tests.postgres.replication import changes_of
from tests.postgres.row_decoder import RowDecoder

KINDS = [msgspec.structs.replace(kind, oid=number) for number, kind in enumerate(PRINTED, 100)]
TEXTS = dict(zip(KINDS, PRINTED.values(), strict=True))
BY_OID = {kind.oid: kind for kind in KINDS}


def resolved(oid: int, schema: str, name: str, identity: str, columns: Any) -> Relation:
    """What a catalog would give: here a key is what the messages flag, or the first column."""
    key = tuple(column for column, _, _, flagged in columns if flagged)
    if identity in "fn":
        key = tuple(column for column, *_ in columns[:1] if oid % 2)
    made = tuple(PgColumn(column, BY_OID[kind], typmod, str(kind)) for column, kind, typmod, _ in columns)
    return Relation(oid, TableName("db", schema, name), made, key)


@st.composite
def relations(draw: st.DrawFn, oid: int) -> tuple[Relation, str]:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5))
    names = draw(st.permutations(["id", 'q"uote', "zip", "Åse", "a\\b"]))
    columns = tuple(PgColumn(name, kind, -1, str(kind.oid)) for name, kind in zip(names, kinds, strict=False))
    identity = draw(st.sampled_from("dfin"))
    key = tuple(column.name for column in columns[: draw(st.integers(1, 2))])
    if identity in "fn":
        key = key[:1] if oid % 2 else ()
    return Relation(oid, TableName("db", "public", f"t{oid}"), columns, key), identity


@st.composite
def rows(draw: st.DrawFn, relation: Relation, *, toast: bool = False, key_only: bool = False) -> list[Any]:
    found: list[Any] = []
    for column in relation.columns:
        choices: list[st.SearchStrategy[Any]] = [TEXTS[column.type]]
        if column.name not in relation.key:
            choices.append(st.none())
        if toast:
            choices.append(st.just(wire.UNCHANGED))
        found.append(None if key_only and column.name not in relation.key else draw(st.one_of(choices)))
    return found


@st.composite
def transactions(draw: st.DrawFn, number: int, tables: dict[int, tuple[Relation, str]]) -> list[bytes]:
    lsn, micros = number * 1000, draw(st.integers(0, 10**15))
    found = [wire.begin(lsn, micros, 700 + number)]
    for _ in range(draw(st.integers(0, 6))):
        oid = draw(st.sampled_from([1, 2]))
        if oid not in tables or draw(st.integers(0, 4)) == 0:
            tables[oid] = draw(relations(oid))
            found.append(wire.described(*tables[oid]))
        relation, identity = tables[oid]
        old = "O" if identity == "f" else "K"
        kind = draw(st.sampled_from("IUuDTM"))
        before = draw(rows(relation, key_only=old == "K"))
        if kind == "I":
            found.append(wire.insert(oid, draw(rows(relation))))
        elif kind == "U":
            found.append(wire.update(oid, draw(rows(relation, toast=True))))
        elif kind == "u":
            found.append(wire.update(oid, draw(rows(relation, toast=True)), old, before))
        elif kind == "D":
            found.append(wire.delete(oid, old, before))
        elif kind == "T":
            found.append(wire.truncate(list(tables), draw(st.integers(0, 3))))
        else:
            found.append(wire.logical(lsn, "pre", draw(st.binary(max_size=4)), transactional=True))
    return [*found, wire.commit(lsn, micros)]


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    tables: dict[int, tuple[Relation, str]] = {}
    found: list[bytes] = []
    for number in range(1, draw(st.integers(1, 5)) + 1):
        if draw(st.booleans()):
            found.append(wire.logical(number * 1000 - 1, "free", b"x", transactional=False))
        found += draw(transactions(number, tables))
    return found


def described(body: bytes) -> Relation:
    return resolved(*relation_of(body))


def by_columns(messages: list[bytes], size: int, start: int = 0, end: int = 2**63) -> list[Change]:
    output = PgOutput("s", "db", resolved, slot="slot", commits=range(start, end))
    return changes_of([output.decode(messages[at : at + size]) for at in range(0, len(messages), size)])


@given(streams(), st.integers(1, 7), st.integers(0, 3), st.integers(3, 6))
def test_a_stream_read_by_columns_is_what_it_is_row_by_row(
    messages: list[bytes], size: int, first: int, last: int
) -> None:
    start, end = first * 1000, last * 1000
    expected = RowDecoder(described, start, end)(messages)
    assert by_columns(messages, len(messages), start, end) == expected
    assert without_ends(by_columns(messages, size, start, end)) == without_ends(expected)


def without_ends(changes: list[Change]) -> list[Change]:
    """Without what depends on where chunks end: the marks of last changes, and commits that stand for them."""
    rows = [change for change in changes if change.op != Operation.COMMIT]
    return [
        msgspec.structs.replace(change, transaction=msgspec.structs.replace(change.transaction, complete=None))
        if change.transaction
        else change
        for change in rows
    ]


NUMBER = PgType(101, "pg_catalog", "int4")
TABLE = Relation(1, TableName("db", "public", "t"), (PgColumn("id", NUMBER, -1, "101"),), ("id",))

TABLE_OF_NUMBERS = Relation(3, TABLE.table, TABLE.columns, TABLE.key)


def transaction(lsn: int, numbers: list[int]) -> list[bytes]:
    return [wire.begin(lsn, 0, lsn), *(wire.insert(1, [number]) for number in numbers), wire.commit(lsn, 0)]


def ends(changes: list[Change]) -> list[tuple[str, str | None, bool | None]]:
    found = []
    for change in changes:
        assert change.transaction is not None
        found.append((change.op.value, change.position, change.transaction.complete))
    return found


def test_a_transaction_ends_with_its_last_change_where_both_come_together() -> None:
    messages = [wire.described(TABLE), *transaction(10, [1, 2]), *transaction(20, []), *transaction(30, [3])]
    assert ends(by_columns(messages, 100)) == [
        ("insert", "0210.011", None),
        ("insert", "0210.012", True),
        ("insert", "0230.011", True),
    ]


def test_a_commit_is_emitted_where_its_changes_went_out_before() -> None:
    messages = [wire.described(TABLE), *transaction(10, [1, 2]), *transaction(20, [])]
    assert ends(by_columns(messages, 1)) == [
        ("insert", "0210.011", None),
        ("insert", "0210.012", None),
        ("commit", "0210.013", True),
    ]
    whole = by_columns(messages, 1)[-1]
    assert (whole.table, whole.key, whole.schema, whole.commit_time) == (None, None, None, 946_684_800_000_000_000)
    assert whole.transaction is not None
    assert whole.transaction.order == 3


def test_a_commit_that_comes_with_the_next_transaction_is_emitted_before_it() -> None:
    messages = [wire.described(TABLE), *transaction(10, [1]), *transaction(20, [2])]
    output = PgOutput("s", "db", resolved, slot="slot", commits=range(100))
    assert output.decode(messages[:3]).num_rows == 1
    assert ends(changes_of([output.decode(messages[3:])])) == [
        ("commit", "0210.012", True),
        ("insert", "0220.011", True),
    ]


def test_only_transactions_between_the_bounds_are_emitted() -> None:
    messages = [wire.described(TABLE)]
    for lsn in (10, 20, 30):
        messages.append(wire.logical(lsn - 1, "p", b"", transactional=False))
        messages += transaction(lsn, [lsn])
    for size in (1, 2, 100):
        found = by_columns(messages, size, 19, 30)
        emitted = [(change.op.value, change.position) for change in found if change.op != Operation.COMMIT]
        assert emitted == [("message", "0219.010"), ("insert", "0220.011"), ("message", "0229.010")]


def test_messages_may_be_given_in_one_buffer_and_with_headers() -> None:
    messages = [wire.described(TABLE), *transaction(10, [1, 2])]
    expected = by_columns(messages, 100)
    given = [b"w" * 25 + message for message in messages]
    lengths = np.array([len(message) for message in given])
    for chunk in (given, (b"".join(given), lengths)):
        output = PgOutput("s", "db", resolved, slot="slot", commits=range(2**63))
        assert changes_of([output.decode(chunk, header=25)]) == expected
        output = PgOutput("s", "db", resolved, slot="slot", commits=range(2**63))
        assert changes_of(list(output.batches(chunk, header=25))) == expected
    assert list(output.batches([])) == []


def test_large_messages_are_decoded_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pgoutput, "_BYTES_AT_ONCE", 50)
    messages = [wire.described(TABLE), *transaction(10, list(range(9))), *transaction(20, [10**9])]
    for chunk in (messages, (b"".join(messages), np.array([len(message) for message in messages]))):
        output = PgOutput("s", "db", resolved, slot="slot", commits=range(2**63))
        batches = list(output.batches(chunk))
        assert len(batches) > 2
        assert without_ends(changes_of(batches)) == without_ends(by_columns(messages, 100))


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([b"S\0\0\0\1\1"], "'S'"),
        ([b""], "empty message"),
        ([b"B\0"], "ends too early"),
        ([wire.insert(1, ["1"])], "outside of transactions"),
        ([wire.commit(5, 0)], "outside of transactions"),
        ([wire.begin(5, 0, 1), wire.begin(6, 0, 1)], "outside of transactions"),
        ([wire.begin(5, 0, 1), wire.insert(9, ["1"])], "table 9 before it describes it"),
        ([wire.begin(5, 0, 1), wire.insert(1, ["1", "2"])], "does not have the 1 columns"),
        ([wire.begin(5, 0, 1), wire.insert(1, ["1"])[:-1]], "ends too early|differs from its message"),
        ([wire.begin(5, 0, 1), wire.insert(1, ["1"]) + b"x"], "differs from its message"),
        ([wire.begin(5, 0, 1), wire.insert(1, ["1"]).replace(b"t", b"b")], "binary"),
        ([wire.begin(5, 0, 1), wire.insert(1, ["1"]).replace(b"t\0", b"t\xff")], "ends too early"),
        ([wire.begin(5, 0, 1), wire.insert(1, ["1"]).replace(b"N", b"K")], "without its row"),
        ([wire.begin(5, 0, 1), wire.truncate([1])[:-2]], "truncate"),
        ([wire.described(TABLE)[:-5]], "ends too early"),
    ],
)
def test_what_is_no_pgoutput_is_refused(messages: list[bytes], message: str) -> None:
    output = PgOutput("s", "db", resolved, slot="slot", commits=range(2**63))
    with pytest.raises(ChangelingError, match=message):
        output.decode([wire.described(TABLE), *messages])


def tenant(number: int) -> Relation:
    return Relation(number, TableName("db", f"tenant{number}", "t"), (PgColumn("id", KINDS[4], -1, "104"),), ("id",))


def test_tables_of_one_shape_keep_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[list[int]] = []
    read = PgOutput._read

    def noted(output: PgOutput, rows: Any, frames: Any, changes: np.ndarray, *more: Any) -> None:
        together.append(changes.tolist())
        read(output, rows, frames, changes, *more)

    monkeypatch.setattr(PgOutput, "_read", noted)
    messages = [wire.described(tenant(1)), wire.described(tenant(2)), wire.described(TABLE_OF_NUMBERS)]
    messages += [
        wire.begin(5, 0, 1),
        *(wire.insert(number, [str(number)]) for number in (2, 1, 3, 2)),
        wire.commit(5, 0),
    ]
    found = by_columns(messages, 100)
    assert found == RowDecoder(described)(messages)
    assert [change.table and change.table.schema for change in found] == ["tenant2", "tenant1", "public", "tenant2"]
    assert together == [[0, 1, 3], [2]]


def test_text_that_is_not_utf8_is_refused_with_the_name_of_its_table() -> None:
    messages = [wire.described(tenant(1)), wire.described(tenant(2)), wire.begin(5, 0, 1)]
    messages += [wire.insert(1, ["abc"]), wire.insert(2, ["abc"]).replace(b"abc", b"a\xffc")]
    with pytest.raises(ChangelingError, match=r"db\.tenant2\.t: .*UTF-8"):
        by_columns(messages, 100)
