"""Transferia: what golden cases cannot show. Options, refusals, rejects, types, and the two shapes into one another."""

import json
from typing import Any

import pyarrow as pa
import pytest

import changeling
from changeling.conformance.cases import KEY, batch
from changeling.model.change import Change
from changeling.model.errors import UsageError
from changeling.model.line import lines
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position
from changeling.model.table import Column, TableName, TableSchema, parse_schemas

COLUMNS = [
    {"name": "id", "type": "int64", "key": True, "original_type": "pg:bigint"},
    {"name": "note", "type": "utf8", "key": False, "original_type": "pg:text"},
]
PLACE = TableName(None, "public", "orders")
TIME = 1_649_273_150_231_781_123


def item(kind: str = "insert", **members: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "id": 556,
        "nextlsn": 1000,
        "commitTime": TIME,
        "txPosition": 2,
        "kind": kind,
        "schema": "public",
        "table": "orders",
        "part": "",
        "columnnames": ["id", "note"],
        "columnvalues": [1, "a"],
        "table_schema": COLUMNS,
        "oldkeys": {},
        "tx_id": "",
        "query": "",
    }
    return {**plain, **members}


def seed(kind: str, values: list[Any], **members: Any) -> dict[str, Any]:
    return {
        "ID": 7,
        "CommitTime": TIME,
        "Kind": kind,
        "Table": "public.orders",
        "Values": values,
        **members,
        "TableSchema": members.get("TableSchema", COLUMNS),
    }


def text(record: Any) -> str:
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


def decoded(*records: Any, **options: Any) -> list[dict[str, Any]]:
    changes, rejects = changeling.decode([text(record) for record in records], "transferia", **options)
    assert rejects.to_pylist() == []
    return [json.loads(line) for found in changes.to_batches() for line in lines(found)]


def reason(record: Any, **options: Any) -> str:
    value = record if isinstance(record, str) else text(record)
    changes, rejects = changeling.decode([value], "transferia", **options)
    assert changes.num_rows == 0
    return str(rejects["reason"][0].as_py())


def written(changes: pa.RecordBatch | pa.Table, **options: Any) -> list[Any]:
    records, rejects = changeling.encode(changes, "transferia", **options)
    assert rejects.to_pylist() == []
    return [json.loads(value) for value in records["value"].to_pylist()]


def refused(changes: pa.RecordBatch | pa.Table, **options: Any) -> tuple[str, str]:
    records, rejects = changeling.encode(changes, "transferia", **options)
    assert records.num_rows == 0
    return rejects["feature"][0].as_py(), rejects["reason"][0].as_py()


def rewritten(record: Any, read: dict[str, Any] | None = None, **options: Any) -> Any:
    changes, rejects = changeling.decode([text(record)], "transferia", **(read or {}))
    assert rejects.to_pylist() == []
    return written(changes, **options)[0]


def fields(change: Change) -> dict[str, Any]:
    return {name: getattr(change, name) for name in change.__struct_fields__}


class TestArrays:
    def test_an_array_is_as_many_changes_as_items(self) -> None:
        found = decoded([item(), item("delete", columnnames=["id"], columnvalues=[1], nextlsn=1001)])
        assert [(change["op"], change["key"], change["position"]) for change in found] == [
            ("insert", {"id": 1}, position(1000, 2)),
            ("delete", {"id": 1}, position(1001, 2)),
        ]

    def test_its_items_are_written_one_a_record(self) -> None:
        items = [item(), item(nextlsn=1001)]
        changes, _ = changeling.decode([text(items)], "transferia")
        assert written(changes) == items

    def test_one_bad_item_rejects_the_record_and_says_which(self) -> None:
        assert reason([item(), item("inser")]) == "item 2 of 2: unknown kind 'inser'; did you mean 'insert'?"

    def test_an_empty_array_is_a_reject(self) -> None:
        assert reason([]) == "an empty array: there is no change item in it"


class TestOddItems:
    """What items have beyond the usual is the same for one of them and for many."""

    def test_old_keys_of_inserts_are_kept(self) -> None:
        odd = [item(oldkeys={"keyvalues": [1], "keynames": ["id"]}), item(oldkeys={"keynames": ["id"], "odd": 2})]
        changes, rejects = changeling.decode([text(one) for one in (odd[0], odd[0], item())], "transferia")
        assert (written(changes), rejects.to_pylist()) == ([odd[0], odd[0], item()], [])
        assert reason(odd[1]) == "1 keynames, but 0 keyvalues"

    @pytest.mark.parametrize(
        ("members", "expected"),
        [
            ({"oldkeys": 5}, "Expected `object | null`, got `int` - at `$.oldkeys`"),
            ({"schema": None, "table": ""}, "Expected `str`, got `null` - at `$.schema`"),
            ({"part": 5}, "Expected `str`, got `int` - at `$.part`"),
        ],
    )
    def test_members_of_another_type_are_rejected(self, members: dict[str, Any], expected: str) -> None:
        given = [text(item(**members)), text(item(**members)), text(item())]
        changes, rejects = changeling.decode(given, "transferia", table="t")
        assert changes.num_rows == 1
        assert rejects["reason"].to_pylist() == [f"not a record of this format: {expected}"] * 2

    def test_a_place_in_the_transaction_may_be_unknown(self) -> None:
        given = [item(changeling={"order": None}), item(changeling={"order": 7}), item()]
        assert [change["transaction"]["order"] for change in decoded(*given)] == [None, 7, 2]

    @pytest.mark.parametrize(
        "members",
        [
            {"id": 0, "nextlsn": 0, "txPosition": 0},
            {"tx_id": "gtid:1"},
            {"commitTime": 2**63},
            {"part": "p", "query": "q", "new": 1},
            {"kind": "mongo:update_document"},
        ],
    )
    def test_items_alike_are_read_and_written_together(self, members: dict[str, Any]) -> None:
        given = [dict(reversed(item(**members).items())), item(**members), item()]
        for records in ([given[0]] * 2, [given[1]] * 2, given):
            changes, rejects = changeling.decode([text(record) for record in records], "transferia")
            assert rejects.to_pylist() == []
            assert [text(record) for record in written(changes)] == [text(record) for record in records]

    def test_records_of_the_data_model_are_read_together(self) -> None:
        given = [seed("UPDATE", [1, "b"], OldValues=[1, old]) for old in ("a", None)]
        given += [seed("DELETE", [1, None]), seed("INSERT", [1, "a"])]
        assert [(change["op"], change["before_image"], change["before"]) for change in decoded(*given)] == [
            ("update", "full", {"id": 1, "note": "a"}),
            ("update", "key", {"id": 1}),
            ("delete", "key", {"id": 1}),
            ("insert", "none", None),
        ]


class TestRejects:
    @pytest.mark.parametrize(
        ("record", "expected"),
        [
            (item("updat"), "unknown kind 'updat'; did you mean 'update'?"),
            (seed("INSRT", [1, "a"]), "unknown Kind 'INSRT'; did you mean 'INSERT'?"),
            (item(columnvalues=[1]), "2 columnnames, but 1 columnvalues"),
            (item(columnnames=["id", "id"]), "a column is named twice: id, id"),
            (item("delete", columnnames=None, columnvalues=None, oldkeys={"keynames": ["id"]}), "1 keynames, but 0 keyvalues"),
            (item(columnnames=["note"], columnvalues=["a"]), "the item lacks key column 'id': neither columnnames nor oldkeys names it"),
            (item(table=""), "the item names no table: say which with --table"),
            (item(id=-1), "not a record of this format: Expected `int` >= 0 - at `$.id`"),
            ({"a": 1}, "not a change item: it has no `kind`"),
            (seed("INSERT", [1]), "1 Values, but the schema has 2 columns"),
            (seed("DELETE", [1, None], OldValues=[1, "a"]), "OldValues on DELETE: they are filled only for UPDATE"),
            (seed("INSERT", [1, "a"], TableSchema=[]), "no TableSchema: the columns of Values are unknown; give them with --columns or --schema"),
            (seed("INSERT", [1, "a"], TableSchema=5), 'no schema has the id 5: give it with --schema FILE, an object with "id": 5 and its columns (in a pipeline: under `tables:` with `id: 5`)'),
            ("[1", "not JSON: Input data was truncated"),
        ],
    )  # fmt: skip
    def test_the_reason_says_what_is_wrong(self, record: Any, expected: str) -> None:
        assert reason(record) == expected

    def test_the_other_shape_is_a_reject_where_one_is_asked_for(self) -> None:
        assert reason(seed("INSERT", [1, "a"]), shape="item") == "not a change item: it has no `kind`"
        assert reason(item(), shape="seed") == "not a record of this format: Object missing required field `Kind`"

    def test_a_bad_record_does_not_stop_the_others(self) -> None:
        changes, rejects = changeling.decode([text(item()), "{", text(item("x"))], "transferia")
        assert (changes.num_rows, rejects.num_rows) == (1, 2)


class TestOptions:
    @pytest.mark.parametrize("verb", [changeling.decode, changeling.encode])
    def test_proto_is_refused_by_name(self, verb: Any) -> None:
        """003-10: values are JSON; proto is a wrong call."""
        with pytest.raises(UsageError, match="serialization=proto is not supported") as caught:
            verb(batch([]) if verb is changeling.encode else [], "transferia", serialization="proto")
        assert caught.value.exit_code == 2

    def test_the_key_is_the_records_own_else_the_users(self) -> None:
        bare = [{"name": "id", "type": "int64"}, {"name": "note", "type": "utf8"}]
        assert decoded(item(), key="note")[0]["key"] == {"id": 1}
        assert decoded(item(table_schema=bare), key="note")[0]["key"] == {"note": "a"}
        assert decoded(item(table_schema=bare))[0]["key"] is None

    def test_the_users_types_win_over_the_records(self) -> None:
        changes, _ = changeling.decode([text(item())], "transferia", columns="note:json")
        schema = json.loads(changes["schema"][0].as_py())
        assert [column["type"] for column in schema["columns"]] == ["int64", "json"]
        assert written(changes) == [item()]

    def test_without_a_schema_an_update_is_partial(self) -> None:
        plain = item("update")
        del plain["table_schema"]
        assert decoded(plain)[0]["after_image"] == "partial"
        assert decoded(plain, columns="id:int64,note:string")[0]["after_image"] == "full"


class TestSchemaId:
    SCHEMAS = parse_schemas(
        b'{"id": 4, "table": "orders", "columns": {"id": "int64", "note": "string"}, "key": ["id"]}', "f"
    )

    @pytest.mark.parametrize("form", [4, {"SchemaID": 4}])
    def test_a_number_stands_for_a_schema(self, form: Any) -> None:
        """003-14: TableSchema may be a SchemaID, resolved by `--schema`, and is written back as it was."""
        record = seed("INSERT", [1, "a"], TableSchema=form)
        found = decoded(record, schemas=self.SCHEMAS)[0]
        assert (found["key"], found["after"]) == ({"id": 1}, {"id": 1, "note": "a"})
        assert rewritten(record, {"schemas": self.SCHEMAS}) == record

    def test_items_may_carry_one_too(self) -> None:
        record = item(table_schema={"SchemaID": 4})
        assert decoded(record, schemas=self.SCHEMAS)[0]["key"] == {"id": 1}
        assert rewritten(record, {"schemas": self.SCHEMAS}) == record

    @pytest.mark.parametrize(("shape", "member"), [("seed", "TableSchema"), ("item", "table_schema")])
    def test_it_is_written_where_asked_for_and_known(self, shape: str, member: str) -> None:
        known = TableSchema((Column("_id", "string"), Column("note", "string")), ("_id",), id=9)
        change = Change(
            op=Operation.INSERT,
            table=TableName(None, "public", "orders"),
            key=KEY,
            after='{"_id":"o-1","note":"a"}',
            after_image=Image.FULL,
            schema=known.to_json(),
        )
        assert written(batch([change]), shape=shape, schema_id=True)[0][member] == {"SchemaID": 9}
        assert isinstance(written(batch([change]), shape=shape)[0][member], list)
        without = Change(**{**fields(change), "schema": TableSchema(known.columns, known.key).to_json()})
        assert isinstance(written(batch([without]), shape=shape, schema_id=True)[0][member], list)


class TestMessageKeys:
    def test_a_key_that_is_no_text_is_kept(self) -> None:
        changes, _ = changeling.decode([{"value": text(item()).encode(), "key": b"\xff\x00"}], "transferia")
        records, _ = changeling.encode(changes, "transferia")
        assert records["key"].to_pylist() == [b"\xff\x00"]

    def test_a_tombstone_has_no_place_in_a_plain_file(self) -> None:
        changes, _ = changeling.decode([{"value": None, "key": b'{"id":1}'}], "transferia")
        assert refused(changes, keyed=False)[0] == "message"
        assert changeling.encode(changes, "transferia")[0]["value"].to_pylist() == [None]
