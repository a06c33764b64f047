"""Tables that change while they are streamed, and large transactions, cut into chunks in every way."""

import json
from collections.abc import Callable

import msgspec
import pytest

from changeling.model.change import Change
from changeling.model.operation import Operation
from changeling.model.table import schema_from_json
from tests.postgres.replication import Replication, changes_of
from tests.postgres.server import Database


def columns(change: Change) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in schema_from_json(change.schema or "").columns]


def written(database: Database) -> Replication:
    """Every kind of message, with a table that is altered between rows of one chunk, and inside of a transaction."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text, gone int)", "CREATE TABLE u (id int PRIMARY KEY)")
    replication = Replication(database)
    database.execute(
        "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)",
        "BEGIN",
        "INSERT INTO t VALUES (3, 'c', 3)",
        "ALTER TABLE t ADD added numeric(4,1) DEFAULT 1.5",
        "INSERT INTO t VALUES (4, 'd', 4, 2.5)",
        "INSERT INTO u VALUES (1)",
        "SELECT pg_logical_emit_message(true, 'p', 'x')",
        "COMMIT",
        "ALTER TABLE t DROP gone",
        "UPDATE t SET name = 'e' WHERE id = 1",
        "ALTER TABLE t RENAME name TO title",
        "INSERT INTO t VALUES (5, 'f', 3.5)",
        "ALTER TABLE t ALTER id TYPE bigint",
        "UPDATE t SET id = 50 WHERE id = 5",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "DELETE FROM t WHERE id = 50",
        "SELECT pg_logical_emit_message(false, 'q', 'y')",
        "TRUNCATE t, u",
        "ALTER TABLE u RENAME TO v",
        "BEGIN",
        "INSERT INTO v SELECT generate_series(1, 20)",
        "COMMIT",
    )
    return replication


def test_each_row_is_read_as_its_table_was_then(database: Database) -> None:
    found = [change for change in written(database).changes() if change.after is not None]
    first = [("id", "int32"), ("name", "string"), ("gone", "int32")]
    added, title = ("added", "decimal(4,1)"), ("title", "string")
    assert [(change.after, columns(change)) for change in found[:8]] == [
        ('{"id":1,"name":"a","gone":1}', first),
        ('{"id":2,"name":"b","gone":2}', first),
        ('{"id":3,"name":"c","gone":3}', first),
        ('{"id":4,"name":"d","gone":4,"added":"2.5"}', [*first, added]),
        ('{"id":1}', [("id", "int32")]),
        ('{"id":1,"name":"e","added":"1.5"}', [("id", "int32"), ("name", "string"), added]),
        ('{"id":5,"title":"f","added":"3.5"}', [("id", "int32"), title, added]),
        ('{"id":50,"title":"f","added":"3.5"}', [("id", "int64"), title, added]),
    ]
    assert {change.table and change.table.name for change in found[8:]} == {"v"}


def without_ends(changes: list[Change]) -> list[Change]:
    rows = [change for change in changes if change.op != Operation.COMMIT]
    return [
        msgspec.structs.replace(change, transaction=msgspec.structs.replace(change.transaction, complete=None))
        if change.transaction
        else change
        for change in rows
    ]


def in_chunks(replication: Replication, messages: list[bytes], cut: Callable[[int], int]) -> list[Change]:
    output, batches, at = replication.output(), [], 0
    while at < len(messages):
        size = cut(at)
        batches.append(output.decode(messages[at : at + size]))
        at += size
    return changes_of(batches)


def test_changes_are_the_same_however_messages_are_cut(database: Database) -> None:
    replication = written(database)
    messages = replication.messages()
    whole = in_chunks(replication, messages, lambda at: len(messages))
    assert len(whole) == 33
    for size in (1, 2, 7):
        found = in_chunks(replication, messages, lambda at, size=size: size)  # type: ignore[misc]
        assert without_ends(found) == without_ends(whole)
        assert told_ends(found) == told_ends(whole)
    for bound in range(1, len(messages)):
        found = in_chunks(replication, messages, lambda at, bound=bound: bound if not at else len(messages))  # type: ignore[misc]
        assert without_ends(found) == without_ends(whole)
        assert told_ends(found) == told_ends(whole)


def told_ends(changes: list[Change]) -> list[str]:
    """The transactions whose end is emitted: each of them once, and nothing of it afterwards."""
    ended: list[str] = []
    for change in changes:
        if change.transaction is not None:
            assert change.transaction.id not in ended
            if change.transaction.complete:
                ended.append(change.transaction.id)
    return ended


def test_a_transaction_may_span_many_chunks(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
    replication = Replication(database)
    database.execute("INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, 5000) i")
    found = in_chunks(replication, replication.messages(), lambda at: 333)
    rows = [change for change in found if change.op == Operation.INSERT]
    assert [json.loads(change.key or "")["id"] for change in rows] == list(range(1, 5001))
    assert [change.transaction and change.transaction.order for change in rows] == list(range(1, 5001))
    positions = [change.position or "" for change in found]
    assert positions == sorted(set(positions))
    assert told_ends(found) == [rows[0].transaction and rows[0].transaction.id]


@pytest.mark.parametrize("bound", [0, 1])
def test_what_commits_before_the_start_is_skipped_but_its_descriptions_are_learned(
    database: Database, bound: int
) -> None:
    replication = written(database)
    whole = replication.changes()
    bounds = sorted({int((change.position or "")[2:].split(".")[0]) for change in whole})
    start, end = bounds[bound], bounds[-2 - bound]
    expected = [change for change in whole if start <= int((change.position or "")[2:].split(".")[0]) < end]
    assert replication.changes(commits=range(start, end)) == expected
    for size in (1, 7):
        found = in_chunks_between(replication, size, start, end)
        assert without_ends(found) == without_ends(expected)


def in_chunks_between(replication: Replication, size: int, start: int, end: int) -> list[Change]:
    output, messages = replication.output(commits=range(start, end)), replication.messages()
    return changes_of([output.decode(messages[at : at + size]) for at in range(0, len(messages), size)])
