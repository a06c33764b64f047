"""Broken records of every dialect: each is kept whole, none stops the others, and what the pipeline file can mend is replayed."""

import random
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeling.files import kcat
from changeling.formats import registry
from changeling.log import log_tables as tables
from changeling.model import arrow_layouts
from changeling.model.errors import ChangelingError, Rejected
from tests.log.commands import run_once
from tests.log.dialects import DIALECTS, Dialect
from tests.log.expecting import Row, expected, in_order, rejected, resolved, with_meta
from tests.log.lakes import Shop, event, message
from tests.log.lakes import log_only as shop

FILES = 2
COUNTS = ("read", "accepted", "rejected", "changes")
ALPHABET = bytes(set(range(256)) - set(b' \t\r\n,"[]{}'))


@dataclass(frozen=True)
class Given:
    """What a source was given to read: records that are read at once, after the mend, and never."""

    good: list[Row]
    mendable: list[Row]
    hopeless: list[Row]
    """As the rejects must have them."""

    def __len__(self) -> int:
        return len(self.good) + len(self.mendable) + len(self.hopeless)


def broken(value: bytes, dice: random.Random, kind: int) -> bytes:
    """Garbage, invalid UTF-8 in the middle, or the first half alone."""
    if kind == 0:
        return bytes(dice.choices(ALPHABET, k=dice.randint(5, 60)))
    text = value.decode()
    first, second = (half.encode() for half in (text[: len(text) // 2], text[len(text) // 2 :]))
    return first + b"\xff\xfe" + second if kind == 1 else first


def write(made: Shop, dialect: Dialect, records: int) -> Given:
    """Writes the files of a source, one record in a hundred broken. Those stand alone: no two of them are neighbours."""
    dice = random.Random(dialect.format)
    rows = dialect.records(records)
    assert len(rows) == records
    broken_records = records // 100
    places = dice.sample(range(1, records - 1, 2), broken_records)
    hopeless = {place: number % 3 for number, place in enumerate(places[: broken_records // 2])}
    mendable = set(places[broken_records // 2 :])
    given = Given([], [], [])
    share = records // FILES
    for ordinal in range(FILES):
        name = f"{dialect.source}/{ordinal}"
        lines: list[str | bytes] = [] if rows[0]["headers"] is None else [rows[0]["headers"][0]["value"]]
        for number, place in enumerate(range(ordinal * share, (ordinal + 1) * share)):
            row = dialect.spoilt(rows[place]) if place in mendable else rows[place]
            origin = {"file": str(made.folder / "in" / name), "ordinal": ordinal, "record": number}
            row = {**row, "origin": origin}
            if place in hopeless:
                line, row = _hopeless(dialect, row, place, dice, hopeless[place])
                lines.append(line)
                given.hopeless.append(row)
                continue
            if dialect.carrier == "kcat":
                lines.append(message(row, place))
                _carry(row, place)
            else:
                lines.append(row["value"])
            (given.mendable if place in mendable else given.good).append(row)
        made.write(name, *lines)
    return given


def _carry(row: Row, offset: int) -> None:
    """What the message around a record adds to it."""
    row["origin"] |= {"topic": row["topic"], "partition": 0, "offset": offset}
    row["headers"] = [{"name": "trace", "value": b"%d" % offset}]


def _hopeless(dialect: Dialect, row: Row, offset: int, dice: random.Random, kind: int) -> tuple[bytes, Row]:
    """A broken record: its line, and the row that the rejects must have of it."""
    line = row["value"]
    if dialect.carrier == "kcat" and kind == 2:
        row["value"] = broken(row["value"], dice, kind)
        line = message(row, offset).encode()
        _carry(row, offset)
    elif dialect.carrier == "kcat":
        # The message itself is broken: nothing is known of its record.
        line = broken(message(row, offset).encode(), dice, kind)
        with pytest.raises(Rejected) as caught:
            kcat.parse(line)
        return line, {**_NOTHING, "reason": str(caught.value), "origin": _whole(row["origin"]), "raw": line}
    else:
        row["value"] = line = broken(row["value"], dice, kind)
    rows, rejects = expected(_batch([row]), dialect.format, dialect.source, **dialect.reading())
    assert rows == []
    (found,) = rejects
    return line, {name: found[name] for name in _NOTHING}


_NOTHING: Row = {"reason": None, "origin": None, "raw": None, "key": None, "headers": None, "topic": None}


def _as_reject(row: Row) -> Row:
    parts = {"raw": row["value"], "origin": _whole(row["origin"])}
    return {**_NOTHING, **{name: row[name] for name in ("key", "headers", "topic")}, **parts}


def _whole(origin: Row) -> Row:
    return {**dict.fromkeys((field.name for field in arrow_layouts.ORIGIN), None), **origin}


def _batch(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, arrow_layouts.RECORDS)


def pipeline(folder: Path, mended: bool) -> Shop:
    sources = [dialect.setting(mended) for dialect in DIALECTS]
    return shop(folder, *sources, tables=[rule for dialect in DIALECTS for rule in dialect.tables(mended)])


@dataclass(frozen=True)
class Reported:
    """All that a pipeline shows: its log and its rejects by source and in order, and the counts of `status`."""

    log: dict[str, list[Row]]
    rejects: dict[str, list[Row]]
    counts: dict[str, dict[str, int]]


def reported(made: Shop) -> Reported:
    log = resolved(with_meta(made.table(tables.CHANGES)), made.table(tables.SCHEMAS).to_pylist())
    status = [row for row in made.pipeline.status() if row["kind"] == "source"]
    counts = {row["name"]: {name: row[name] for name in COUNTS} for row in status}
    return Reported(_by_source(log), _by_source(made.rejects()), counts)


def _by_source(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {dialect.source: [] for dialect in DIALECTS}
    for row in in_order(rows):
        found[row["source"]].append(row)
    return found


def due(given: dict[str, Given], mended: bool) -> Reported:
    """What must be shown before the fix, or after it and a replay."""
    made = Reported({}, {}, {})
    for dialect in DIALECTS:
        name, parts = dialect.source, given[dialect.source]
        log = changes_of(dialect, parts.good, batch=1)
        kept = [rejected(row, name) for row in parts.hopeless]
        if mended:
            log += changes_of(dialect, parts.mendable, batch=2)
        else:
            kept += [rejected({**_as_reject(row), "reason": dialect.reason}, name) for row in parts.mendable]
        made.log[name], made.rejects[name] = in_order(log), in_order(kept)
        accepted = len(parts) - len(kept)
        made.counts[name] = {"read": len(parts), "accepted": accepted, "rejected": len(kept), "changes": len(log)}
    return made


def changes_of(dialect: Dialect, rows: list[Row], batch: int) -> list[Row]:
    """Good records as rows of the log."""
    log, rejects = expected(_batch(rows), dialect.format, dialect.source, batch, **dialect.reading())
    assert rejects == []
    return log


def same(found: Reported, wanted: Reported) -> None:
    """Asserts that both are equal, part by part: the difference of all of them at once would take minutes to print."""
    assert found.counts == wanted.counts
    for name in wanted.counts:
        assert found.log[name] == wanted.log[name]
        assert found.rejects[name] == wanted.rejects[name]


# In the soak, more than 100,000 records of all dialects together.
@pytest.mark.parametrize("records", [1_100, pytest.param(9_100, marks=pytest.mark.soak)])
def test_broken_records_of_every_dialect_are_kept_whole_and_replayed_once_after_a_mend(
    records: int, spark: SparkSession, tmp_path: Path
) -> None:
    assert [dialect.format for dialect in DIALECTS] == registry.names()
    made = pipeline(tmp_path, mended=False)
    given = {dialect.source: write(made, dialect, records) for dialect in DIALECTS}
    assert {len(parts) for parts in given.values()} == {records}
    totals = made.pipeline.run(once=True)
    before = due(given, mended=False)
    assert {total.source: {name: getattr(total, name) for name in COUNTS} for total in totals} == before.counts
    same(reported(made), before)
    made = pipeline(tmp_path, mended=True)
    shares = {name: (len(parts.mendable), len(parts.hopeless)) for name, parts in given.items()}
    assert made.pipeline.replay() == shares
    after = due(given, mended=True)
    same(reported(made), after)
    assert made.pipeline.replay() == {name: (0, stay) for name, (_, stay) in shares.items()}
    assert [total.read for total in made.pipeline.run(once=True)] == [0] * len(DIALECTS)
    same(reported(made), after)


FAILING = {"name": "drop", "type": "files", "path": "in/*.json", "format": "xtdb", "on_error": "fail", "batch_files": 1}


def test_on_error_fail_stops_before_anything_of_the_batch_is_in_the_log(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = shop(tmp_path, FAILING)
    made.write("a.json", event(1), event(2))
    made.write("b.json", event(3), event(4), '{"op":', event(5))
    assert run_once(made) == 1
    where = tmp_path / "in" / "b.json"
    reason = "not JSON: Input data was truncated"
    message = f"source drop: {where} record 2: {reason} (on_error: reject continues without it)"
    assert capsys.readouterr().err.splitlines()[-1] == f"changeling: {message}"
    first = batch_of("a.json", [event(1), event(2)], batch=1)
    assert made.log() == first
    assert made.rows(tables.REJECTS) == []
    (status,) = (row for row in made.pipeline.status() if row["kind"] == "source")
    assert {name: status[name] for name in COUNTS} == {"read": 2, "accepted": 2, "rejected": 0, "changes": 2}
    assert status["last_error"] == message
    # Nothing is got over by trying again.
    assert run_once(made) == 1
    assert made.log() == first
    # The file that was planned and not read is planned again as it is now.
    made.write("b.json", event(3), event(4), event(5), event(6))
    assert run_once(made) == 0
    assert f"drop: {where} changed before it was read: " in capsys.readouterr().err
    assert made.log() == first + batch_of("b.json", [event(number) for number in (3, 4, 5, 6)], batch=2)
    assert made.rows(tables.REJECTS) == []
    assert [row["last_error"] for row in made.pipeline.status() if row["kind"] == "source"] == [None]


def batch_of(name: str, lines: list[str], batch: int) -> list[Row]:
    """The rows of a file of events, the second batch being the second file."""
    place: Row = {"file": f"FOLDER/in/{name}", "ordinal": batch - 1}
    rows: list[Row] = [
        {"value": line.encode(), "origin": {**place, "record": number}} for number, line in enumerate(lines)
    ]
    log, rejects = expected(_batch(rows), "xtdb", "drop", batch)
    assert rejects == []
    return [{**{column: row[column] for column in row if column != "schema"}, "schema_id": None} for row in log]


def test_on_error_fail_may_become_reject(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path, FAILING)
    made.write("a.json", event(1), "broken", event(2))
    with pytest.raises(ChangelingError):
        made.pipeline.run(once=True)
    shop(tmp_path, {**FAILING, "on_error": "reject"})
    (total,) = made.pipeline.run(once=True)
    assert {name: getattr(total, name) for name in COUNTS} == {"read": 3, "accepted": 2, "rejected": 1, "changes": 2}
    assert [row["raw"] for row in made.rejects()] == [b"broken"]
