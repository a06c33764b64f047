"""Writers by columns give exactly what writers change by change give: records, rejects, and everything that is counted."""

import random
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import changeling
from bench.events import events
from changeling.conformance.cases import CASES, batch
from changeling.formats import registry
from changeling.formats.capabilities import FEATURES
from changeling.formats.changefeed import Mode
from changeling.formats.encoding import Encoder, Numbering
from changeling.formats.format import write_options
from changeling.formats.transaction_progress import TransactionProgress
from changeling.model import arrow_layouts
from changeling.model.change import Change, Transaction
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position_of
from tests.conformance.strategies import changes
from tests.conformance.test_columns import CSV
from tests.golden.test_golden import CASES as GOLDEN
from tests.golden.test_golden import options_of, records_of

FORMATS = registry.names()
LOSSY = ("canal", "dataworks", "dataworks-message", "ydb-debezium", "ydb-dynamodb", "ydb-json")
"""Formats whose places are not those of XTDB's transactions: such changes lose them, where that is allowed."""
MOVING = ("arcion-csv", "arcion-json", "arcion-native", "canal", "dataworks", "dataworks-message", "transferia")
"""Formats that have a place for the key before: a moved row is written by columns, too."""
COLUMNS = {
    "_id": "string",
    "age": "int32",
    "balance": "decimal(18,2)",
    "created_at": "timestamptz",
    "items": "json",
}
OPTIONS: list[dict[str, Any]] = [{}, {"drop": "all"}, {"drop": "all", "keyed": False}]


def check_same(name: str, given: list[pa.RecordBatch], options: dict[str, Any], supplied: bool = False) -> int:
    """How many of the changes are written by columns; all are written as one by one, batch after batch."""
    form = registry.get(name)
    checked = write_options(form, options)
    quick, slow = Encoder(form, checked), Encoder(form, checked, by_columns=False)
    numberings = [Numbering(), Numbering()]
    by_columns = 0
    for one in given:
        if supplied:
            progress = [TransactionProgress()] * one.num_rows
            numberings = [replace(numbering, progress=progress) for numbering in numberings]
        by_columns += _by_columns(quick, one, numberings[0])
        found, wanted = (encode(one, numbering) for encode, numbering in zip((quick, slow), numberings, strict=True))
        assert found.records.to_pylist() == wanted.records.to_pylist()
        assert found.records.equals(wanted.records)
        assert found.rejects.equals(wanted.rejects)
        assert (found.dropped, found.relabelled, found.as_text) == (wanted.dropped, wanted.relabelled, wanted.as_text)
        assert (list(found.places), dict(found.placed)) == (list(wanted.places), dict(wanted.placed))
        numberings = [numbering.after(one, made) for numbering, made in zip(numberings, (found, wanted), strict=True)]
        if not supplied:
            assert vars(numberings[0].transactions) == vars(numberings[1].transactions)
    return by_columns


def _by_columns(encoder: Encoder, given: pa.RecordBatch, numbering: Numbering) -> int:
    plain = encoder._plain(numbering.numbered(given), numbering)
    return 0 if plain is None else int(plain.written.plain.sum())


def _mixed(every: list[Change], seed: int) -> list[pa.RecordBatch]:
    """The changes a few times, in some order, with and without schemas and positions of their own, in transactions of several."""
    dice = random.Random(seed)
    made = []
    for number in range(4 * len(every)):
        change = msgspec.structs.replace(dice.choice(every))
        if dice.random() < 0.6:
            change.schema = None
        if dice.random() < 0.8:
            transaction, order = divmod(number, 5)
            change.transaction = Transaction(str(transaction), order, dice.choice([None, number]))
            change.position = position_of(transaction, order)
        made.append(change)
    return [batch(made[start : start + 40]) for start in range(0, len(made), 40)]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("supplied", [True, False])
def test_changes_of_all_kinds(name: str, options: dict[str, Any], supplied: bool) -> None:
    by_columns = check_same(name, _mixed(list(CASES.values()), seed=11), options, supplied)
    assert by_columns > 0 or (name in LOSSY and not options)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_each_change_alone(case: str, name: str) -> None:
    """As it is, and with what a change needs in order to be written by columns; the options go round from case to case."""
    placed = msgspec.structs.replace(CASES[case], position=position_of(7, 0), transaction=Transaction("7", 0))
    first = list(CASES).index(case)
    for number, change in enumerate(
        (CASES[case], placed, msgspec.structs.replace(placed, schema=None, commit_time=None))
    ):
        check_same(name, [batch([change])], OPTIONS[(first + number) % len(OPTIONS)])


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=settings().max_examples // 3)  # Each is written in every format, in batches of 40.
@given(every=st.lists(changes(), min_size=3, max_size=8), seed=st.integers(0, 99))
def test_generated_changes(name: str, every: list[Change], seed: int) -> None:
    check_same(name, _mixed(every, seed), {"drop": "all"})


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_golden_changes_of_every_format(case: Any) -> None:
    read, _ = changeling.decode(records_of(case), case.parent.name, **options_of(case, "read"))
    # Of the combinations of options and formats a third for each case: in its own format both that it has.
    for number, name in enumerate(FORMATS, GOLDEN.index(case)):
        own = name == case.parent.name
        for options in OPTIONS[:2] if own else [OPTIONS[number % len(OPTIONS)]]:
            check_same(name, read.to_batches(), options)


@pytest.mark.parametrize("name", FORMATS)
def test_plain_rows_are_written_by_columns(name: str) -> None:
    read, _ = changeling.decode(list(events(300)), "xtdb")
    (plain,) = read.combine_chunks().to_batches()
    options = {"drop": "all"} if name in LOSSY else {}
    assert check_same(name, [plain], options) == 300
    canonical = plain.set_column(8, arrow_layouts.CHANGES.field(8), pa.repeat(pa.scalar("canonical"), 300))
    assert check_same(name, [canonical], options) == 300
    known, _ = changeling.decode(list(events(300)), "xtdb", columns=COLUMNS, key="_id")
    assert check_same(name, known.combine_chunks().to_batches(), options) == 300
    typed = canonical.set_column(15, arrow_layouts.CHANGES.field(15), known["schema"].combine_chunks())
    assert check_same(name, [typed], options) == 300


@pytest.mark.parametrize("name", FORMATS)
def test_a_moved_row_shifts_those_behind_it_in_its_transaction(name: str) -> None:
    """Its two records take two places: the changes after it are not written by columns, in this batch and the next."""
    first = Change(
        op=Operation.UPDATE,
        table=CASES["insert"].table,
        key='{"id":2}',
        before='{"id":1}',
        after='{"id":2}',
        before_image=Image.FULL,
        after_image=Image.FULL,
        position=position_of(7, 0),
        transaction=Transaction("7", 0),
    )
    later = [
        msgspec.structs.replace(
            first,
            key=f'{{"id":{order}}}',
            before=None,
            before_image=Image.NONE,
            after=f'{{"id":{order}}}',
            position=position_of(number, order),
            transaction=Transaction(str(number), order),
        )
        for number in (7, 8)
        for order in (1, 2)
    ]
    given = [batch([first, *later]), batch(later)]
    settled = (4 if registry.get(name).counts_transactions else 8) + (name in MOVING)
    assert check_same(name, given, {"drop": frozenset(FEATURES)}) == settled


@pytest.mark.parametrize("name", FORMATS)
def test_a_part_of_a_new_row_whose_record_names_the_old_one_is_looked_at_by_itself(name: str) -> None:
    """No other dialect has a place for the row that it was: that is a loss, by columns as well."""
    part = msgspec.structs.replace(
        CASES["insert"], after='{"_id":"o-1","count":7}', after_image=Image.PARTIAL, meta='{"old_key":{"_id":"o-0"}}'
    )
    whole = msgspec.structs.replace(CASES["insert"], meta='{"old_key":{"_id":"o-0"}}')
    for options in OPTIONS:
        check_same(name, [batch([part, whole])], options)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", ["ydb-debezium", "ydb-dynamodb", "ydb-json"])
def test_every_mode_of_changefeeds(name: str, mode: Mode) -> None:
    """Of changes of other dialects and of their own, which go by columns, too."""
    given = _mixed(list(CASES.values()), seed=5)
    for more in [{}, {"reset": True}, {"reset": False}] if name == "ydb-json" else [{}]:
        for drop in ("all", ()):
            check_same(name, given, {"mode": mode, "drop": drop, **more})
    known, _ = changeling.decode(list(events(300)), "xtdb", columns=COLUMNS, key="_id")
    # Of a change without the row before it, some modes show nothing.
    options = {"mode": mode, "drop": "all"}
    assert check_same(name, known.combine_chunks().to_batches(), options) == 300
    made, _ = changeling.encode(known, name, **options)
    shown = {} if name == "ydb-dynamodb" else {"mode": mode}
    for schema in ({}, {"columns": COLUMNS}):
        own, _ = changeling.decode(made, name, key="_id", table="users", **shown, **schema)
        for chosen in ({}, options, {"mode": Mode.NEW_AND_OLD_IMAGES, "drop": "all"}):
            assert check_same(name, own.combine_chunks().to_batches(), chosen) == 300


@pytest.mark.parametrize(("name", "options"), CSV)
def test_rows_of_csv(name: str, options: dict[str, Any]) -> None:
    """Of changes of other dialects and of their own, which go by columns, too."""
    for drop in ("all", ()):
        check_same(name, _mixed(list(CASES.values()), seed=5), {"drop": drop, **options})
    known, _ = changeling.decode(list(events(300)), "xtdb", columns=COLUMNS, key="_id")
    made, _ = changeling.encode(known, name, **options, drop="all")
    style = {option: value for option, value in options.items() if option != "layout"}
    own, rejects = changeling.decode(made, name, key="_id", **style)
    assert rejects.num_rows == 0
    given = own.combine_chunks().to_batches()
    assert check_same(name, given, style) == own.num_rows > 150
    if options.get("mode") != "snapshot":
        assert check_same(name, known.combine_chunks().to_batches(), {"drop": "all", **options}) == 300
