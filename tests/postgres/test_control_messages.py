"""What a real server streams in addition to rows: truncates, logical messages, transactions that are rolled back."""

import base64
import json

from changeling.model.operation import Operation
from changeling.model.position import encode
from tests.postgres.replication import Replication
from tests.postgres.server import Database


def test_truncates_are_one_change_for_each_table(database: Database) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int REFERENCES a)")
    replication = Replication(database)
    database.execute("TRUNCATE a, b", "TRUNCATE a CASCADE", "TRUNCATE b RESTART IDENTITY")
    changes = replication.changes()
    assert [(change.op, change.table and change.table.name, change.meta) for change in changes] == [
        (Operation.TRUNCATE, "a", None),
        (Operation.TRUNCATE, "b", None),
        (Operation.TRUNCATE, "a", '{"cascade":true}'),
        (Operation.TRUNCATE, "b", '{"cascade":true}'),
        (Operation.TRUNCATE, "b", '{"restart_identity":true}'),
    ]
    assert [change.transaction and change.transaction.order for change in changes] == [1, 2, 1, 2, 1]
    assert {(change.key, change.before, change.after) for change in changes} == {(None, None, None)}


def test_logical_messages_are_reported_inside_and_outside_of_transactions(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    replication = Replication(database)
    with database.connection.transaction():
        database.execute(
            "INSERT INTO t VALUES (1)",
            "SELECT pg_logical_emit_message(true, 'audit', 'wer \"war\" das?')",
            "INSERT INTO t VALUES (2)",
        )
    (row,) = database.rows("SELECT pg_logical_emit_message(false, 'free', '\\x00ff'::bytea, true) - '0/0'::pg_lsn")
    changes = replication.changes()
    assert [change.op.value for change in changes] == ["insert", "message", "insert", "message"]
    inside, outside = changes[1], changes[3]
    assert json.loads(inside.meta or "") == {
        "prefix": "audit",
        "content_base64": base64.b64encode(b'wer "war" das?').decode(),
        "content": 'wer "war" das?',
    }
    assert inside.transaction is not None
    assert inside.transaction.order == 2
    assert json.loads(outside.meta or "") == {"prefix": "free", "content_base64": "AP8="}
    assert (outside.transaction, outside.commit_time, outside.table) == (None, None, None)
    assert outside.position == encode(int(row[0]), 0)


def test_what_is_rolled_back_is_not_reported(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    replication = Replication(database)
    database.execute(
        "BEGIN",
        "INSERT INTO t VALUES (1)",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (2)",
        "ROLLBACK TO s",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (3)",
        "RELEASE s",
        "COMMIT",
        "BEGIN",
        "INSERT INTO t VALUES (4)",
        "ROLLBACK",
    )
    changes = replication.changes()
    assert [change.key for change in changes] == ['{"id":1}', '{"id":3}']
    assert [change.transaction and (change.transaction.order, change.transaction.complete) for change in changes] == [
        (1, None),
        (2, True),
    ]
