"""What a pipeline declares of tables reaches the formats."""

from pathlib import Path
from typing import Any

import pytest

from changeling.envelope import reading
from changeling.formats import registry
from changeling.formats.arcion_csv import ArcionCsvRead, expects_header
from changeling.formats.options import ReadOptions
from changeling.model.change import Change, Record
from changeling.model.errors import UsageError
from changeling.model.table import Column, TableName, TableSchema
from tests.pipelines.pipeline_files import HEAD, USERS, loaded, source

ID, NAME, PRICE = Column("id", "int64"), Column("name", "string"), Column("price", "decimal(10,2)")
XTDB = HEAD + "  - {name: drop, type: files, path: in, format: xtdb%s}\n"
USERS_TABLE, ORDERS_TABLE = TableName(None, None, "users"), TableName(None, None, "orders")


def options(folder: Path, text: str, **more: Any) -> ReadOptions:
    found = loaded(folder, text)
    return found.read_options(source(found), **more)


def decoded(folder: Path, text: str, *records: Record) -> list[Change]:
    found = loaded(folder, text)
    one = source(found)
    decode = reading.one_by_one(registry.get(one.format).reader(found.read_options(one)))
    return [change for record in records for change in decode(record)]


def test_what_the_source_says(tmp_path: Path) -> None:
    text = USERS.replace("[id]", "[id], columns: {id: int64, price: 'Decimal(10, 2)'}, options: {mode: UPDATES}")
    found = options(tmp_path, text)
    assert type(found) is registry.get("ydb-json").read_options
    assert (found.source, found.table, found.key) == ("drop", USERS_TABLE, ("id",))
    assert found.schemas == (TableSchema((ID, PRICE), ("id",)),)
    assert getattr(found, "mode", None) == "UPDATES"


def test_a_source_that_says_nothing(tmp_path: Path) -> None:
    found = options(tmp_path, XTDB % "")
    assert (found.source, found.table, found.key, found.schemas) == ("drop", None, (), ())


def test_rules_become_schemas_the_closest_first(tmp_path: Path) -> None:
    rules = """\
tables:
  - {name: users, key: [id], columns: {id: int64}}
  - {name: users, source: drop, columns: {id: int64, name: string}}
  - {name: shop.public.users, columns: {id: int64}, id: 7}
  - {name: public.users, key: [name], columns: {id: int64, name: string}}
  - {name: orders, source: other, columns: {id: int64}}
  - {name: notes, mode: append}
"""
    other = "  - {name: other, type: files, path: in, format: xtdb}\n"
    found = options(tmp_path, XTDB % ", columns: {name: string}" + other + rules)
    assert found.schemas == (
        TableSchema((ID,), (), TableName("shop", "public", "users"), 7),
        TableSchema((ID, NAME), ("name",), TableName(None, "public", "users")),
        TableSchema((ID, NAME), (), USERS_TABLE),
        TableSchema((ID,), ("id",), USERS_TABLE),
        TableSchema((NAME,)),
    )
    assert found.schema_with_id(7) == found.schemas[0]
    assert found.schema_of(ORDERS_TABLE) == TableSchema((NAME,))


def test_the_rules_of_a_source_in_the_order_in_which_they_decide(tmp_path: Path) -> None:
    rules = """\
tables:
  - {name: a}
  - {name: a, source: drop, mode: append}
  - {name: b, source: other}
  - {name: s.a, mode: history}
"""
    other = "  - {name: other, type: files, path: in, format: xtdb}\n"
    found = loaded(tmp_path, XTDB % "" + other + rules)
    assert [(rule.name, rule.mode) for rule in found.rules("drop")] == [
        ("s.a", "history"),
        ("a", "append"),
        ("a", "merge"),
    ]
    assert [rule.name for rule in found.rules("other")] == ["s.a", "b", "a"]


def test_schema_files_are_next_to_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(
        '[{"columns": {"name": "string"}}, {"table": "users", "columns": {"id": "int64"}, "key": ["id"], "id": 3}]'
    )
    found = options(tmp_path, XTDB % ", schema_file: ./s.json")
    assert found.schemas == (TableSchema((ID,), ("id",), USERS_TABLE, 3), TableSchema((NAME,)))


def test_a_schema_file_that_is_gone_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FILE", "sesame.json")
    (tmp_path / "sesame.json").write_text('{"columns": {"id": "int64"}}')
    found = loaded(tmp_path, XTDB % ", schema_file: '${FILE}'")
    (tmp_path / "sesame.json").unlink()
    with pytest.raises(UsageError) as caught:
        found.read_options(source(found))
    assert str(caught.value) == "shop.yaml: source 'drop': sesame.json: No such file or directory"


def test_schemas_that_were_learned_come_last(tmp_path: Path) -> None:
    learned = (TableSchema((ID, NAME), (), USERS_TABLE), TableSchema((ID, PRICE), (), ORDERS_TABLE))
    found = options(tmp_path, XTDB % ", key: [id]" + "tables: [{name: users, columns: {id: int64}}]\n", schemas=learned)
    assert found.schemas == (
        TableSchema((ID,), ("id",), USERS_TABLE),
        TableSchema((ID, NAME), ("id",), USERS_TABLE),
        TableSchema((ID, PRICE), ("id",), ORDERS_TABLE),
    )


def test_a_rule_takes_the_columns_it_leaves_out_from_the_source(tmp_path: Path) -> None:
    found = options(tmp_path, XTDB % ", columns: {id: int64, name: string}" + "tables: [{name: users, key: [name]}]\n")
    assert found.schemas == (TableSchema((ID, NAME), ("name",), USERS_TABLE), TableSchema((ID, NAME)))
    found = options(
        tmp_path,
        XTDB % "" + "tables: [{name: users, key: [name]}]\n",
        schemas=(TableSchema((ID, NAME), ("id",), USERS_TABLE),),
    )
    assert found.schemas[0] == TableSchema((ID, NAME), ("name",), USERS_TABLE)


def test_the_key_of_a_rule_wins_over_that_of_the_source(tmp_path: Path) -> None:
    rules = "tables:\n  - {name: users, key: [name], columns: {id: int64, name: string}}\n"
    found = options(tmp_path, XTDB % ", key: [id]" + rules)
    assert found.key_of(USERS_TABLE) == ("name",)
    assert found.key_of(ORDERS_TABLE) == ("id",)
    found = options(tmp_path, XTDB % ", key: [id], columns: {id: int64}" + rules)
    assert found.key_of(USERS_TABLE) == ("name",)
    assert found.key_of(ORDERS_TABLE) == ("id",)
    assert found.schema_of(ORDERS_TABLE) == TableSchema((ID,), ("id",))


def test_a_rule_with_a_key_alone_counts_for_its_table(tmp_path: Path) -> None:
    found = options(tmp_path, XTDB % "" + "tables: [{name: users, key: [name]}, {name: orders, key: [a, b]}]\n")
    assert found.key_of(USERS_TABLE) == ("name",)
    assert found.key_of(TableName("shop", "public", "orders")) == ("a", "b")
    assert found.key_of(TableName(None, None, "notes")) == ()


def test_records_get_the_key_of_a_rule(tmp_path: Path) -> None:
    rules = "tables:\n  - {name: users, key: [id]}\n"
    record = Record(b'{"key":[1],"update":{"name":"Ann"}}')
    (change,) = decoded(tmp_path, USERS.replace(", key: [id]", "") + rules, record)
    assert change.key == b'{"id":1}'
    assert change.schema is None
    rules += "  - {name: orders, key: [number]}\n"
    text = USERS.replace(", table: users, key: [id]", "") + rules
    topics = (Record(record.value, topic="/shop/users/feed"), Record(record.value, topic="/shop/orders/feed"))
    assert [change.key for change in decoded(tmp_path, text, *topics)] == [b'{"id":1}', b'{"number":1}']


def test_a_key_alone_leaves_the_header_of_csv_in_place(tmp_path: Path) -> None:
    text = HEAD + "  - {name: drop, type: files, path: in, format: arcion-csv, table: users}\n"
    rules = "tables: [{name: users, key: [id]}]\n"
    for given in (text + rules, text.replace("users", "users, key: [id]")):
        found = options(tmp_path, given)
        assert isinstance(found, ArcionCsvRead)
        assert found.key_of(USERS_TABLE) == ("id",)
        assert expects_header(found)


def test_a_key_alone_counts_with_the_table_of_the_source(tmp_path: Path) -> None:
    text = HEAD + "  - {name: drop, type: files, path: in, format: dataworks, table: users%s}\n"
    found = options(tmp_path, text % "" + "tables: [{name: orders, key: [number]}]\n")
    assert (found.key_of(USERS_TABLE), found.key_of(ORDERS_TABLE)) == ((), ("number",))
    found = options(tmp_path, text % ", key: [id]" + "tables: [{name: orders, key: [number]}]\n")
    assert (found.key_of(USERS_TABLE), found.key_of(ORDERS_TABLE)) == (("id",), ("number",))
    found = options(tmp_path, text % "" + "tables: [{name: orders, key: [number]}, {name: users, key: [id]}]\n")
    assert (found.key_of(USERS_TABLE), found.key_of(ORDERS_TABLE)) == (("id",), ("number",))


def test_numbers_of_schemas_are_known_to_the_format(tmp_path: Path) -> None:
    text = HEAD + "  - {name: drop, type: files, path: in, format: transferia}\n"
    rules = "tables: [{name: public.users, id: 7, key: [id], columns: {id: int64, name: string}}]\n"
    record = Record(
        b'{"kind":"insert","schema":"public","table":"users","table_schema":{"SchemaID":7},'
        b'"columnnames":["id","name"],"columnvalues":[1,"Ann"],"nextlsn":5,"commitTime":0,"id":1}'
    )
    (change,) = decoded(tmp_path, text + rules, record)
    assert change.key == b'{"id":1}'


def test_every_format_takes_what_a_pipeline_declares(tmp_path: Path) -> None:
    rules = "tables: [{name: users, key: [id], columns: {id: int64}}, {name: orders, key: [id]}]\n"
    for name in registry.names():
        for said in ("", ", table: users", ", table: orders", ", table: users, key: [id]"):
            text = f"{HEAD}  - {{name: drop, type: files, path: in, format: {name}{said}}}\n{rules}"
            found = options(tmp_path, text)
            assert found.key_of(USERS_TABLE) == found.key_of(ORDERS_TABLE) == ("id",)
