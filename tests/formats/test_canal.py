"""`canal`: what its golden cases do not show."""

import json
from typing import Any

import pytest

import changeling

MESSAGE: dict[str, Any] = {
    "data": [{"id": "7", "name": "Ann"}],
    "database": "shop",
    "es": 1_700_000_000_000,
    "id": 3,
    "isDdl": False,
    "mysqlType": None,
    "old": None,
    "pkNames": ["id"],
    "sql": "",
    "table": "users",
    "type": "INSERT",
}


def decoded(*messages: dict[str, Any], **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    changes, rejects = changeling.decode([json.dumps(message) for message in messages], "canal", **options)
    return changes.to_pylist(), rejects["reason"].to_pylist()


def test_a_message_of_several_rows_gives_a_change_for_each() -> None:
    rows = [{"id": "7", "name": "Ann"}, {"id": "8", "name": "Bo"}]
    both = {**MESSAGE, "data": rows, "old": [{"name": "A"}, {"name": "B"}], "type": "UPDATE"}
    changes, reasons = decoded(both, MESSAGE)
    assert reasons == []
    assert [change["key"] for change in changes] == ['{"id":"7"}', '{"id":"8"}', '{"id":"7"}']
    assert [change["before"] for change in changes] == ['{"name": "A"}', '{"name": "B"}', None]
    written, _ = changeling.encode(changeling.decode([json.dumps(both)], "canal")[0], "canal")
    assert [json.loads(value)["data"] for value in written["value"].to_pylist()] == [[row] for row in rows]


def test_a_table_is_named_by_the_user_where_the_message_does_not() -> None:
    nameless = {**MESSAGE, "table": None}
    assert decoded(nameless)[1] == ["the message names no table; say which with --table"]
    assert decoded(nameless, table="shop.users")[0][0]["table"]["name"] == "users"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"type": "UPSERT"}, "unknown type 'UPSERT': a row has INSERT, UPDATE or DELETE, and a statement isDdl"),
        ({"data": None}, "a message without rows: `data` is missing"),
        ({"data": []}, "a message without rows: `data` is empty"),
        ({"data": 5}, "`data` must be a list of rows"),
        ({"data": [5]}, "a row in `data` must be an object"),
        ({"old": [{"name": "A"}]}, "an INSERT with a row in `old`: there was none before"),
        ({"pkNames": ["code"]}, "the row lacks key column 'code'"),
        ({"es": "now"}, "`es` must be a whole number of milliseconds"),
        ({"data": MESSAGE["data"] * 2, "old": [{}], "type": "UPDATE"}, "2 rows in `data`, but 1 in `old`"),
    ],
)
def test_a_bad_message_is_rejected_with_its_reason(wrong: dict[str, Any], reason: str) -> None:
    changes, reasons = decoded(MESSAGE, {**MESSAGE, **wrong}, MESSAGE)
    assert (len(changes), reasons) == (2, [reason])
