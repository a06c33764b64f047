"""What a conversion loses is named at the first refusal, all of it, and counted in the report, all of it: every pair of formats."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from changeling.conformance.cases import CASES, batch
from changeling.conversion import Conversion
from changeling.formats import registry
from changeling.formats.format import write_options
from changeling.model.change import Change, Transaction
from changeling.model.errors import LossError
from changeling.model.position import encode as position
from changeling.model.table import TableName
from changeling.reading_changes import ConversionReport
from changeling.rejects import RejectSink
from tests.conformance.test_conformance import decoded, held

FORMATS = registry.names()


def _late() -> list[Change]:
    """Three changes of two tables that do not come in the order of their positions."""
    of = {
        12: TableName("shop", None, "orders"),
        11: TableName("shop", None, "people"),
        13: TableName("shop", None, "orders"),
    }
    return [
        msgspec.structs.replace(
            CASES["insert"], table=table, position=position(number, 0), transaction=Transaction(str(number), 0, number)
        )
        for number, table in of.items()
    ]


@cache
def changes_of(name: str) -> tuple[pa.RecordBatch, ...]:
    """What the format can carry of all cases, as it reads it, and two tables out of order, a few changes a batch."""
    found = []
    for change in [*CASES.values(), *_late()]:
        records = held(change, name)
        if records is not None:
            found.append(decoded(records, name, change))
    return tuple(pa.concat_batches(found[start : start + 4]) for start in range(0, len(found), 4))


def converted(
    batches: Sequence[pa.RecordBatch], source: str, target: str, drop: str, folder: Path
) -> tuple[ConversionReport, int]:
    """The report of a conversion, and how many records it gave; everything that was refused is raised."""
    form, report = registry.get(target), ConversionReport()
    with RejectSink(str(folder / "rejects.jsonl")) as rejects:
        conversion = Conversion(form, write_options(form, {"drop": drop, "keyed": False}), rejects, report)
        written = sum(part.num_rows for part in conversion.records_of(batches, registry.get(source)))
    return report, written


def check(batches: Sequence[pa.RecordBatch], source: str, target: str, folder: Path) -> None:
    try:
        report, written = converted(batches, source, target, "", folder)
    except LossError as refusal:
        counted = Counter(
            {name: int(count) for name, count in re.findall(r"^  (\S+): (\d+) changes", str(refusal), re.M)}
        )
        (proposal,) = re.findall(r"--drop (\S+);", str(refusal))
        assert sorted(counted) == proposal.split(",")
        report, written = converted(batches, source, target, proposal, folder)
        assert report.dropped == counted
    else:
        assert report.dropped == Counter()
    assert report.written == written


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_a_proposal_is_complete_and_every_loss_is_counted(source: str, target: str, tmp_path: Path) -> None:
    """All changes in one conversion, batch by batch: what the last one loses is proposed with what the first does."""
    check(changes_of(source), source, target, tmp_path)


@pytest.mark.parametrize("target", FORMATS)
def test_one_batch_says_the_same_as_many(target: str, tmp_path: Path) -> None:
    check([pa.concat_batches(changes_of("debezium-json"))], "debezium-json", target, tmp_path)


def test_what_was_allowed_before_is_in_the_proposal(tmp_path: Path) -> None:
    with pytest.raises(LossError, match="--drop commit_time,order,position,table,transaction;"):
        converted([batch(_late())], "xtdb", "dataworks", "commit_time", tmp_path)


def test_tables_and_order_are_counted(tmp_path: Path) -> None:
    report, _ = converted([batch(_late())], "xtdb", "dataworks", "order,position,table,transaction", tmp_path)
    assert report.dropped == {"order": 1, "position": 3, "table": 1, "transaction": 3}


def test_records_that_would_be_read_in_another_order_are_refused(tmp_path: Path) -> None:
    """Ids of PostgreSQL's transactions are not in the order of their commits, and XTDB's readers go by them."""
    changes = [
        msgspec.structs.replace(CASES["insert"], position=position(*at), transaction=Transaction(number, 0, 1))
        for number, at in [("571", (90, 0)), ("570", (95, 0))]
    ]
    with pytest.raises(LossError, match="--drop order,position;"):
        converted([batch(changes)], "xtdb", "xtdb", "position", tmp_path)
    report, _ = converted([batch(changes)], "xtdb", "xtdb", "order,position", tmp_path)
    assert report.dropped == {"order": 1, "position": 2}


def test_a_change_that_is_rejected_in_the_end_has_dropped_nothing(tmp_path: Path) -> None:
    change = msgspec.structs.replace(CASES["transaction"], after='{"_id":"o-1","count":"x"}')
    report, written = converted([batch([change])], "xtdb", "dataworks", "position,transaction", tmp_path)
    assert (report.rejected, report.dropped, written) == (1, {}, 0)


def test_what_is_left_out_has_no_place_among_the_records(tmp_path: Path) -> None:
    """A batch of nothing but marks, and then a row: it is not behind records with a position."""
    batches = [batch([CASES["barrier"]]), batch([msgspec.structs.replace(CASES["insert"], position=position(90, 0))])]
    report, written = converted(batches, "ydb-json", "dataworks", "all", tmp_path)
    assert (written, report.dropped["order"]) == (1, 0)
