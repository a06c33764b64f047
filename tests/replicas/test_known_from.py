"""From when on a table is known: from its first change, or from a snapshot that shows that it was there before."""

import json
from pathlib import Path
from typing import Any

import pytest

from changeling.iceberg import planned_scan
from changeling.model.errors import UsageError
from tests.log.lakes import Shop, event, shop

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked on Spark is answered by its jobs."""
    monkeypatch.setattr(planned_scan, "MAX_BYTES", 0)


SOURCE = {"name": "drop", "type": "files", "path": "in/*.json", "format": "xtdb"}
KEYLESS = {"name": "drop", "type": "files", "path": "in/*.json", "format": "debezium-json"}


def change(number: int, op: str, row: str, second: int | None = None) -> str:
    """An event of transaction `number`, a second after the one before it unless another time is given."""
    made: dict[str, Any] = json.loads(event(number, _id=row))
    millis = 1_700_000_000_000 + 1000 * (number if second is None else second)
    made["source"] |= {"ts_ms": millis, "system_time": millis}
    return json.dumps({**made, "op": op, "ts_ms": millis})


def time(second: int) -> str:
    return f"2023-11-14T22:13:{20 + second:02d}Z"


def filled(folder: Path, *changes: str) -> Shop:
    made = shop(folder, SOURCE)
    made.write("1.json", *changes)
    made.pipeline.run(once=True)
    return made


def states(made: Shop, **asked: Any) -> list[dict[str, int]]:
    """The rows in this process and on Spark."""
    found = made.pipeline.rows("users", **asked), made.pipeline.replica("users", **asked).toArrow()
    return [{row["_id"]: row["n"] for row in rows.to_pylist()} for rows in found]


def refused(made: Shop, table: str, moment: str, known_from: str) -> None:
    message = rf"{moment} lies before the snapshot that .*{table} is known from: {known_from}"
    for asked in (made.pipeline.rows, made.pipeline.replica):
        with pytest.raises(UsageError, match=message):
            asked(table, as_of=moment)


def test_a_read_in_the_middle_takes_no_earlier_state_away(tmp_path: Path) -> None:
    made = filled(
        tmp_path,
        *(change(1, "c", "a"), change(2, "u", "a"), change(3, "c", "b"), change(4, "r", "a"), change(5, "u", "a")),
    )
    expected = [{}, {"a": 1}, {"a": 2}, {"a": 2, "b": 3}, {"a": 4, "b": 3}, {"a": 5, "b": 3}]
    for number, rows in enumerate(expected):
        assert states(made, as_of=time(number)) == [rows] * 2
    for number, rows in enumerate(expected[1:], 1):
        assert states(made, as_of_transaction=number) == [rows] * 2


def test_changes_before_a_snapshot_with_other_rows_are_not_all_of_the_table(tmp_path: Path) -> None:
    # A table that was added to a capture: its changes come before its snapshot, and among the rows of it.
    made = filled(
        tmp_path,
        *(change(1, "u", "b"), change(2, "r", "b"), change(3, "c", "d"), change(4, "r", "c"), change(5, "r", "d")),
    )
    for second in (0, 1):
        refused(made, "users", time(second), time(2))
    assert states(made, as_of=time(4)) == [{"b": 2, "c": 4, "d": 3}] * 2


def test_before_a_snapshot_that_comes_first_nothing_is_known(tmp_path: Path) -> None:
    made = filled(tmp_path, change(1, "r", "a"), change(2, "r", "b"), change(3, "u", "a"))
    refused(made, "users", time(0), time(1))
    assert states(made, as_of=time(2)) == [{"a": 1, "b": 2}] * 2


def test_the_time_that_is_named_is_answered_where_clocks_run_backwards(tmp_path: Path) -> None:
    made = filled(tmp_path, change(1, "c", "a", 10), change(2, "r", "b", 5), change(3, "u", "a", 12))
    refused(made, "users", time(7), time(10))
    assert states(made, as_of=time(10)) == [{"a": 1, "b": 2}] * 2


def test_without_a_key_every_snapshot_may_have_new_rows(tmp_path: Path) -> None:
    made = shop(tmp_path, KEYLESS)
    lines = []
    for position, op in ((1, "c"), (2, "r"), (3, "c")):
        source = {"connector": "mysql", "db": "inv", "table": "log", "file": "mysql-bin.000003", "pos": position}
        millis = 1_700_000_000_000 + 1000 * position
        lines.append(
            json.dumps({"before": None, "after": {"n": position}, "op": op, "source": {**source, "ts_ms": millis}})
        )
    made.write("1.json", *lines)
    made.pipeline.run(once=True)
    refused(made, "log", time(1), time(2))
