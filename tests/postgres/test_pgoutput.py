"""What a real server streams, as changes."""

import json
from typing import Any

import pytest

from changeling.model.change import Change
from changeling.model.errors import ChangelingError
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName, schema_from_json
from tests.postgres.replication import Replication, changes_of
from tests.postgres.server import Database


def summary(change: Change) -> tuple[str, Any, Any, Any]:
    """What happened, the key, the images."""
    key, before, after = (
        None if text is None else json.loads(text) for text in (change.key, change.before, change.after)
    )
    return change.op.value, key, before, after


def without_schema(changes: list[Change]) -> list[tuple[str, Any, Any, Any]]:
    return [summary(change) for change in changes]


def test_rows_are_reported_with_the_key_that_the_primary_key_gives(database: Database) -> None:
    database.execute("CREATE TABLE t (id bigint PRIMARY KEY, name text)")
    replication = Replication(database)
    database.execute(
        "INSERT INTO t VALUES (1, 'a'), (2, NULL)",
        "UPDATE t SET name = 'b' WHERE id = 1",
        "UPDATE t SET id = 3 WHERE id = 2",
        "DELETE FROM t WHERE id = 1",
    )
    changes = replication.changes()
    assert without_schema(changes) == [
        ("insert", {"id": 1}, None, {"id": 1, "name": "a"}),
        ("insert", {"id": 2}, None, {"id": 2, "name": None}),
        ("update", {"id": 1}, None, {"id": 1, "name": "b"}),
        ("update", {"id": 3}, {"id": 2}, {"id": 3, "name": None}),
        ("delete", {"id": 1}, {"id": 1}, None),
    ]
    assert [(change.before_image, change.after_image) for change in changes] == [
        (Image.NONE, Image.FULL),
        (Image.NONE, Image.FULL),
        (Image.NONE, Image.FULL),
        (Image.KEY, Image.FULL),
        (Image.KEY, Image.NONE),
    ]
    assert {change.table for change in changes} == {TableName(database.name, "public", "t")}
    schema = schema_from_json(changes[0].schema or "")
    assert schema.key == ("id",)
    assert [(column.name, column.type, column.original_type) for column in schema.columns] == [
        ("id", "int64", "bigint"),
        ("name", "string", "text"),
    ]


def test_every_column_of_the_layout_is_filled(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    replication = Replication(database)
    (row,) = database.rows("INSERT INTO t VALUES (1) RETURNING txid_current(), extract(epoch FROM clock_timestamp())")
    batch = replication.output().decode(replication.messages())
    (change,) = batch.to_pylist()
    (begin,) = [message for message in replication.messages() if message[:1] == b"B"]
    lsn = int.from_bytes(begin[1:9])
    assert abs(change.pop("commit_time") / 1e9 - float(row[1])) < 60
    assert change.pop("position").startswith(f"{len(str(lsn)):02d}{lsn}.01")
    assert change == {
        "source": "shop",
        "table": {"catalog": database.name, "schema": "public", "name": "t"},
        "op": "insert",
        "key": '{"id":1}',
        "before": None,
        "after": '{"id":1}',
        "before_image": "none",
        "after_image": "full",
        "encoding": "canonical",
        "transaction": {"id": str(row[0]), "order": 1, "total": None, "complete": True},
        "schema_id": None,
        "origin": {
            "file": None,
            "ordinal": None,
            "record": 1,
            "topic": replication.slot,
            "partition": 0,
            "offset": lsn,
        },
        "meta": None,
        "schema": change["schema"],
        "arrived": False,
    }


def test_identity_full_carries_whole_old_rows(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text)", "ALTER TABLE t REPLICA IDENTITY FULL")
    replication = Replication(database)
    database.execute("INSERT INTO t VALUES (1, 'a')", "UPDATE t SET id = 2, name = NULL", "DELETE FROM t")
    changes = replication.changes()
    assert without_schema(changes)[1:] == [
        ("update", {"id": 2}, {"id": 1, "name": "a"}, {"id": 2, "name": None}),
        ("delete", {"id": 2}, {"id": 2, "name": None}, None),
    ]
    assert [change.before_image for change in changes] == [Image.NONE, Image.FULL, Image.FULL]


def test_identity_full_without_a_primary_key_has_no_key(database: Database) -> None:
    database.execute("CREATE TABLE t (a int, b text)", "ALTER TABLE t REPLICA IDENTITY FULL")
    replication = Replication(database)
    database.execute("INSERT INTO t VALUES (1, 'a')", "UPDATE t SET b = 'c'", "DELETE FROM t")
    changes = replication.changes()
    assert [change.key for change in changes] == [None] * 3
    assert schema_from_json(changes[0].schema or "").key == ()


def test_identity_by_an_index_has_its_columns_as_the_key(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, b text NOT NULL, a int NOT NULL, c text)",
        "CREATE UNIQUE INDEX u ON t (b, a)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX u",
    )
    replication = Replication(database)
    database.execute("INSERT INTO t VALUES (1, 'x', 2, 'y')", "UPDATE t SET a = 3", "DELETE FROM t")
    changes = replication.changes()
    assert [change.key for change in changes] == ['{"a":2,"b":"x"}', '{"a":3,"b":"x"}', '{"a":3,"b":"x"}']
    assert [change.before for change in changes] == [None, '{"b":"x","a":2}', '{"b":"x","a":3}']


def test_identity_nothing_carries_inserts(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "ALTER TABLE t REPLICA IDENTITY NOTHING")
    replication = Replication(database)
    database.execute("INSERT INTO t VALUES (1)")
    assert without_schema(replication.changes()) == [("insert", {"id": 1}, None, {"id": 1})]


LARGE = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 300) i)"


def test_a_value_that_was_left_alone_outside_of_its_row_is_absent(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, large text, n int, other text)")
    replication = Replication(database)
    database.execute(
        f"INSERT INTO t VALUES (1, {LARGE}, 1, {LARGE}), (2, 'small', 1, {LARGE})",
        "UPDATE t SET n = 2",
        "UPDATE t SET other = 'x', id = id + 10",
    )
    changes = replication.changes()
    members = [sorted(json.loads(change.after or "")) for change in changes]
    assert members == [
        ["id", "large", "n", "other"],
        ["id", "large", "n", "other"],
        ["id", "n"],
        ["id", "large", "n"],
        ["id", "n", "other"],
        ["id", "large", "n", "other"],
    ]
    full, partial = Image.FULL, Image.PARTIAL
    assert [change.after_image for change in changes] == [full, full, partial, partial, partial, full]


def test_a_value_that_was_left_alone_is_taken_from_the_whole_old_row(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, large text, n int)", "ALTER TABLE t REPLICA IDENTITY FULL")
    replication = Replication(database)
    database.execute(f"INSERT INTO t VALUES (1, {LARGE}, 1)", "UPDATE t SET n = 2")
    inserted, updated = replication.changes()
    assert updated.after_image == Image.FULL
    assert json.loads(updated.after or "")["large"] == json.loads(inserted.after or "")["large"]
    assert updated.before == inserted.after


def test_a_key_outside_of_its_row_is_taken_from_the_old_key(database: Database) -> None:
    # A key of 2,400 letters that do not compress is stored outside of the row, and still fits into an index.
    database.execute("CREATE TABLE t (id text PRIMARY KEY, n int)", "ALTER TABLE t ALTER id SET STORAGE EXTERNAL")
    replication = Replication(database)
    database.execute(f"INSERT INTO t VALUES (left({LARGE}, 2400), 1)", "UPDATE t SET n = 2")
    inserted, updated = replication.changes()
    (message,) = [message for message in replication.messages() if message[:1] == b"U"]
    assert message[5:6] == b"K"
    assert message.endswith(b"N\0\2ut\0\0\0\0012")
    assert updated.key == inserted.key
    assert updated.after_image == Image.FULL
    assert json.loads(updated.after or "") == {**json.loads(inserted.after or ""), "n": 2}


def test_partitions_are_reported_as_their_root(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id int, part int, PRIMARY KEY (id, part)) PARTITION BY LIST (part)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)",
        "CREATE TABLE t2 (part int NOT NULL, id int NOT NULL)",
        "ALTER TABLE t ATTACH PARTITION t2 FOR VALUES IN (2)",
    )
    replication = Replication(database, "FOR TABLE t WITH (publish_via_partition_root)")
    database.execute("INSERT INTO t VALUES (7, 1), (8, 2)", "UPDATE t SET part = 2 WHERE id = 7", "DELETE FROM t")
    changes = replication.changes()
    assert {change.table and change.table.name for change in changes} == {"t"}
    assert [change.key for change in changes if change.op != Operation.DELETE] == [
        '{"id":7,"part":1}',
        '{"id":8,"part":2}',
        '{"id":7,"part":2}',
    ]


def test_a_column_list_of_a_publication_is_kept(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text)")
    replication = Replication(database, "FOR TABLE t (id, b)")
    database.execute("INSERT INTO t VALUES (1, 'a', 'b')")
    (change,) = replication.changes()
    assert change.after == '{"id":1,"b":"b"}'
    assert [column.name for column in schema_from_json(change.schema or "").columns] == ["id", "b"]


def test_a_type_that_is_gone_keeps_its_name_and_its_text(database: Database) -> None:
    database.execute("CREATE TYPE mood AS ENUM ('ok', 'bad')", "CREATE TABLE t (id int PRIMARY KEY, m mood)")
    replication = Replication(database)
    database.execute("INSERT INTO t VALUES (1, 'bad')", "DROP TABLE t", "DROP TYPE mood")
    (change,) = replication.changes()
    assert change.after == '{"id":1,"m":"bad"}'
    assert schema_from_json(change.schema or "").columns[1].original_type == "public.mood"


def test_a_stream_that_begins_in_its_middle_is_refused(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    replication = Replication(database)
    database.execute("INSERT INTO t VALUES (1)")
    messages = [message for message in replication.messages() if message[:1] != b"R"]
    with pytest.raises(ChangelingError, match="before it describes it"):
        replication.output().decode(messages)


def test_no_message_is_no_change(database: Database) -> None:
    replication = Replication(database)
    assert changes_of([replication.output().decode([])]) == []
