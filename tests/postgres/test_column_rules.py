import hashlib
import json

import pytest

from changeling.model.errors import UsageError
from changeling.model.operation import Image
from changeling.model.table import TableName, schema_from_json
from changeling.postgres.column_rules import ColumnRules
from tests.postgres.replication import Replication, pg_type, relation_of
from tests.postgres.server import Database

RELATION = relation_of({"id": pg_type("int8"), "mail": pg_type("text")}, ("id",))


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (ColumnRules(), "plain"),
        (ColumnRules(include=("id",)), None),
        (ColumnRules(include=("m*",)), "plain"),
        (ColumnRules(include=("mail",), exclude=("ma?l",)), None),
        (ColumnRules(mask=("mail",)), "masked"),
        (ColumnRules(hash=("*",)), "hashed"),
        (ColumnRules(hash=("*",), mask=("mail",)), "masked"),
        (ColumnRules(mask=("MAIL",)), "plain"),
    ],
)
def test_rules_say_how_a_column_is_captured(rules: ColumnRules, expected: str | None) -> None:
    assert rules.treatment("mail") == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (ColumnRules(exclude=("id",)), "left out"),
        (ColumnRules(include=("mail",)), "left out"),
        (ColumnRules(mask=("i*",)), "masked"),
    ],
)
def test_the_key_cannot_be_hidden(rules: ColumnRules, expected: str) -> None:
    with pytest.raises(UsageError, match=rf"db\.public\.t: the column 'id' is part of the key.*{expected}"):
        rules.check(RELATION)


def test_the_key_may_be_hashed() -> None:
    ColumnRules(hash=("id",)).check(RELATION)


def test_hidden_columns_never_show(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, secret text, mail text, birth date, plain text)")
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    replication = Replication(database)
    database.execute(
        "INSERT INTO t VALUES (1, 'hush', 'a@b', '2000-01-01', 'x'), (2, 'hush', NULL, NULL, NULL)",
        "UPDATE t SET plain = 'y' WHERE id = 1",
        "DELETE FROM t WHERE id = 1",
    )
    rules = ColumnRules(exclude=("secret",), mask=("birth",), hash=("mail", "id"), salt="salz")
    asked: list[TableName] = []

    def rules_of(table: TableName) -> ColumnRules:
        asked.append(table)
        return rules

    changes = replication.changes(rules=rules_of)
    assert asked == [TableName(database.name, "public", "t")]

    def hashed(text: str) -> str:
        return hashlib.sha256(f"salz{text}".encode()).hexdigest()

    first = {"id": hashed("1"), "mail": hashed("a@b"), "birth": "***", "plain": "x"}
    second = {"id": hashed("2"), "mail": None, "birth": None, "plain": None}
    assert [json.loads(change.after or "null") for change in changes] == [first, second, {**first, "plain": "y"}, None]
    assert [json.loads(change.before or "null") for change in changes[2:]] == [first, {**first, "plain": "y"}]
    assert [change.key for change in changes] == [f'{{"id":"{hashed(number)}"}}' for number in ("1", "2", "1", "1")]
    assert {change.after_image for change in changes[:3]} == {Image.FULL}
    assert [(column.name, column.type) for column in schema_from_json(changes[0].schema or "").columns] == [
        ("id", "string"),
        ("mail", "string"),
        ("birth", "string"),
        ("plain", "string"),
    ]
    assert "hush" not in str(changes)
