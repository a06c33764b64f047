"""Transferia, written: records of the data model, the two shapes into one another, items for changes of other dialects."""

import json
from typing import Any

import pytest

import changeling
from changeling.conformance.cases import CASES, KEY, batch
from changeling.model.change import Change, Transaction
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position
from changeling.model.table import Column, TableName, TableSchema
from tests.formats.test_transferia import PLACE, TIME, decoded, fields, item, refused, rewritten, seed, text, written


class TestSeedShape:
    @staticmethod
    def _bare(case: str, **parts: Any) -> Change:
        return Change(**{**fields(CASES[case]), "table": PLACE, **parts})

    def test_ids_are_distinct_inside_one_transaction(self) -> None:
        """003-03: three changes of one transaction, two of them at one position."""
        one = self._bare("transaction")
        records = written(batch([one, one, one]), shape="seed", drop="transaction,position")
        assert [record["ID"] for record in records] == [1, 2, 3]

    def test_only_the_seven_members_and_four_kinds(self) -> None:
        """003-06: reads and replaces are INSERT, upserts UPDATE."""
        for op, kind in (("read", "INSERT"), ("replace", "INSERT"), ("upsert", "UPDATE"), ("insert", "INSERT")):
            record = written(batch([self._bare(op)]), shape="seed")[0]
            assert list(record) == ["ID", "CommitTime", "Kind", "Table", "Values", "TableSchema"]
            assert record["Kind"] == kind

    def test_old_values_stand_on_updates_alone(self) -> None:
        """003-11, 003-12: an update has its row before, a delete has its values in `Values`."""
        update = written(batch([self._bare("update with both images")]), shape="seed")[0]
        assert (update["Values"][1], update["OldValues"][1]) == (False, True)
        delete = written(batch([self._bare("delete with before")]), shape="seed")[0]
        assert "OldValues" not in delete
        assert delete["Values"][:3] == ["o-1", True, -128]
        by_key = written(batch([self._bare("delete by key")]), shape="seed")[0]
        assert by_key["Values"] == ["o-1"] + [None] * 15
        found = decoded(by_key)[0]
        assert (found["op"], found["key"], found["before_image"]) == ("delete", {"_id": "o-1"}, "key")

    def test_a_statement_is_the_one_value(self) -> None:
        """003-07: DDL keeps its statement."""
        record = written(batch([self._bare("ddl")]), shape="seed")[0]
        assert (record["Kind"], record["Values"]) == ("DDL", ["ALTER TABLE orders ADD COLUMN x int"])
        assert decoded(record)[0]["meta"]["statement"] == "ALTER TABLE orders ADD COLUMN x int"

    @pytest.mark.parametrize(
        ("case", "feature"),
        [
            ("partial update", "partial"),
            ("transaction", "transaction"),
            ("position of two parts", "position"),
            ("truncate", "truncate"),
            ("commit", "commit"),
            ("message", "message"),
            ("begin", "begin"),
            ("barrier", "barrier"),
            ("key alone", "keys-only"),
        ],
    )
    def test_what_it_has_no_place_for_is_refused(self, case: str, feature: str) -> None:
        """003-19."""
        found, why = refused(batch([self._bare(case)]), shape="seed")
        assert found == feature
        assert f"cannot carry {feature}" in why

    def test_a_catalog_is_refused(self) -> None:
        assert refused(batch([CASES["insert"]]), shape="seed")[0] == "catalog"
        assert written(batch([CASES["insert"]]), shape="seed", drop="catalog")[0]["Table"] == "orders"

    def test_a_partial_row_that_may_go_writes_no_null_into_what_it_does_not_know(self) -> None:
        record = written(batch([self._bare("partial update")]), shape="seed", drop="partial")[0]
        assert [column["name"] for column in record["TableSchema"]] == ["_id", "count", "name"]
        assert record["Values"] == ["o-1", 7, None]

    def test_columns_of_unknown_type_come_back(self) -> None:
        change = self._bare("insert", schema=None, after='{"_id":"o-1","b":[1],"a":1.50}')
        record = written(batch([change]), shape="seed")[0]
        assert [column["original_type"] for column in record["TableSchema"]] == ["pg:unknown"] * 3
        assert (record["Values"], rewritten(record)) == (["o-1", [1], 1.5], record)

    def test_names_with_points_come_back(self) -> None:
        change = self._bare("insert", table=TableName(None, 'a."b', "c.d"))
        record = written(batch([change]), shape="seed")[0]
        assert record["Table"] == '"a.""b"."c.d"'
        assert decoded(record)[0]["table"] == {"catalog": None, "schema": 'a."b', "name": "c.d"}

    def test_a_time_before_1970_is_refused(self) -> None:
        assert refused(batch([self._bare("insert", commit_time=-1)]), shape="seed")[0] == "commit_time"
        assert refused(batch([self._bare("insert", commit_time=-1)]))[0] == "commit_time"
        assert written(batch([self._bare("insert", commit_time=-1)]), drop="commit_time")[0]["commitTime"] == 0


class TestOneShapeIntoTheOther:
    def test_an_item_as_a_seed_record(self) -> None:
        snapshot = item(id=0, nextlsn=0, txPosition=0)
        assert rewritten(snapshot, shape="seed") == {**seed("INSERT", [1, "a"]), "ID": 1}
        assert refused(changeling.decode([text(item())], "transferia")[0], shape="seed")[0] == "transaction"
        assert rewritten(item(), shape="seed", drop="transaction,position") == {**seed("INSERT", [1, "a"]), "ID": 1}

    def test_a_seed_record_as_an_item(self) -> None:
        found = rewritten(seed("UPDATE", [1, "b"], OldValues=[1, "a"]), shape="item")
        assert (found["kind"], found["columnvalues"], found["nextlsn"]) == ("update", [1, "b"], 7)
        assert found["oldkeys"] == {"keynames": ["id", "note"], "keytypes": ["bigint", "text"], "keyvalues": [1, "a"]}
        assert [(c["type"], c["original_type"]) for c in found["table_schema"]] == [
            ("int64", "pg:bigint"),
            ("utf8", "pg:text"),
        ]
        back = decoded(found)[0]
        assert (back["position"], back["before_image"]) == (position(7), "full")

    @pytest.mark.parametrize("record", [item(), seed("INSERT", [1, "a"])])
    def test_without_a_word_each_keeps_its_own(self, record: Any) -> None:
        assert rewritten(record) == record


class TestItemsOfOtherDialects:
    def test_a_whole_item(self) -> None:
        """003-01, 003-04, 003-08, 003-13: names, widths and order are the system's own."""
        change = Change(
            op=Operation.UPDATE,
            table=PLACE,
            key='{"id":18446744073709551615}',
            after='{"id":18446744073709551615,"price":150.00}',
            before='{"id":18446744073709551615}',
            after_image=Image.FULL,
            before_image=Image.KEY,
            position=position(18446744073709551615, 3),
            commit_time=TIME,
            transaction=Transaction("18446744073709551615", 3),
            schema=TableSchema((Column("id", "uint64"), Column("price", "json")), ("id",)).to_json(),
        )
        records, _ = changeling.encode(batch([change]), "transferia")
        assert records["value"][0].as_py().decode() == (
            '{"id":18446744073709551615,"nextlsn":18446744073709551615,"commitTime":1649273150231781123,"txPosition":3,'
            '"kind":"update","schema":"public","table":"orders","part":"","columnnames":["id","price"],'
            '"columnvalues":[18446744073709551615,150.00],"table_schema":[{"table_schema":"public","table_name":"orders",'
            '"path":"","name":"id","type":"uint64","key":true,"fake_key":false,"required":false,"expression":"",'
            '"original_type":""},{"table_schema":"public","table_name":"orders","path":"","name":"price","type":"any",'
            '"key":false,"fake_key":false,"required":false,"expression":"","original_type":"pg:jsonb"}],'
            '"oldkeys":{"keynames":["id"],"keytypes":["uint64"],"keyvalues":[18446744073709551615]},"tx_id":"","query":""}'
        )
        assert records["key"][0].as_py() == b'{"id":18446744073709551615}'

    def test_a_transaction_that_is_no_number_is_a_tx_id(self) -> None:
        for name, expected in (("7", (7, "")), ("007", (0, "007")), ("0", (0, "0")), ("abc:1", (0, "abc:1")), (str(2**64), (0, str(2**64)))):  # fmt: skip
            change = Change(**{**fields(CASES["insert"]), "transaction": Transaction(name)})
            record = written(batch([change]))[0]
            assert (record["id"], record["tx_id"]) == expected
            assert decoded(record)[0]["transaction"]["id"] == name

    def test_control_changes(self) -> None:
        """003-07."""
        kinds = ("commit", "ddl", "truncate", "message")
        records = written(batch([CASES[kind] for kind in kinds]))
        assert [(record["kind"], record["columnnames"], record.get("columnvalues")) for record in records] == [
            ("DDL", ["query"], ["-- transaction 7 done"]),
            ("DDL", ["query"], ["ALTER TABLE orders ADD COLUMN x int"]),
            ("truncate", None, None),
            ("message", ["prefix", "content"], ["audit", "hi"]),
        ]
        assert [change["op"] for change in decoded(*records)] == list(kinds)

    def test_what_items_have_no_place_for_stands_beside(self) -> None:
        change = Change(**{**fields(CASES["position of three parts"]), "op": Operation.READ})
        record = written(batch([change]))[0]
        assert record["changeling"] == {"op": "read", "catalog": "shop", "position": [10, 7461, 1]}
        assert rewritten(record) == record

    def test_columns_of_unknown_type_stay_so(self) -> None:
        change = Change(op=Operation.UPSERT, table=PLACE, key=KEY, after='{"a":1}', after_image=Image.PARTIAL)
        record = written(batch([change]))[0]
        assert [(c["name"], c["type"], c["key"]) for c in record["table_schema"]] == [("_id", "any", True), ("a", "any", False)]  # fmt: skip
        found = decoded(record)[0]
        assert (found["op"], found["key"], found["after_image"]) == ("upsert", {"_id": "o-1"}, "partial")
        changes, _ = changeling.decode([text(record)], "transferia")
        assert changes["schema"].to_pylist() == [None]
        assert written(changes) == [record]
        typed, _ = changeling.decode([text(record)], "transferia", columns="a:int8")
        assert typed["schema"].to_pylist() == ['{"columns":[{"name":"a","type":"int8"}],"key":["_id"]}']


def test_a_transaction_without_an_order_has_none_when_it_is_read_back() -> None:
    changes, _ = changeling.decode(
        ['{"key":[1],"update":{"v":1},"ts":[1670792400890,562949953607163]}'], "ydb-json", table="t", key="id"
    )
    records, rejects = changeling.encode(changes, "transferia", drop="all")
    back, _ = changeling.decode(records["value"].to_pylist(), "transferia")
    assert rejects.num_rows == 0
    assert back["position"].to_pylist() == changes["position"].to_pylist()
    assert back["transaction"].to_pylist() == changes["transaction"].to_pylist()


def test_the_tombstone_of_a_delete_is_one_record_there_and_back() -> None:
    source = {
        "connector": "postgresql",
        "name": "shop",
        "db": "d",
        "schema": "s",
        "table": "t",
        "lsn": 7,
        "ts_ms": 1000,
    }
    event = {"before": {"id": 1, "n": 2}, "after": None, "source": source, "op": "d"}
    topic = {"topic": "shop.s.t"}
    given = [
        {"value": json.dumps(event), "key": '{"id":1}', **topic},
        {"value": None, "key": '{"id":1}', **topic},
        {"value": None, "key": '{"id":2}', **topic},
    ]
    changes, _ = changeling.decode(given, "debezium-json")
    items, _ = changeling.encode(changes, "transferia")
    names = ["value", "key", "topic"]
    back, _ = changeling.decode(items.select(names).to_pylist(), "transferia")
    records, rejects = changeling.encode(back, "debezium-json", drop="all")
    found = records.select(names).to_pylist()
    assert rejects.num_rows == 0
    assert [(row["key"], row["value"] is None) for row in found] == [
        (b'{"id":1}', False),
        (b'{"id":1}', True),
        (b'{"id":2}', True),
    ]
    assert found[1]["topic"] == found[0]["topic"]
