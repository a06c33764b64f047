"""Parts of a pipeline that do not agree, and names that do not exist."""

from pathlib import Path

import pytest

from changeling.formats import registry
from tests.pipelines.pipeline_files import USERS, loaded, refused

TABLES = USERS + "tables:\n"
KNOWN = ", ".join(registry.names())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (USERS.replace("ydb-json", "ydb-jsn"), ":4: sources[0].format: there is no format 'ydb-jsn'; did you mean 'ydb-json'?"),
        (USERS.replace("ydb-json", "z"), f":4: sources[0].format: there is no format 'z'; known: {KNOWN}"),
        (USERS.replace("users", "a..b"), ":4: sources[0].table: 'a..b' is not a table name: write [catalog.][schema.]name"),
        (USERS.replace("[id]", "[id, id]"), ":4: sources[0].key[1]: the column 'id' is listed twice"),
        (
            USERS.replace("[id]", "[id], columns: {ID: int64}"),
            ":4: sources[0].key[0]: the key column 'id' is not among the columns; did you mean 'ID'?",
        ),
        (USERS.replace("[id]", "[id], columns: {id: int46}"), ":4: sources[0].columns.id: there is no type 'int46'; did you mean 'int64'?"),
        (
            USERS.replace("[id]", "[id], columns: {'': int64, id: int64}"),
            ':4: sources[0].columns[""]: a column must have a name',
        ),
        (
            USERS.replace("[id]", f"[id], columns: {{id: {'array<' * 5000}int64{'>' * 5000}}}"),
            ":4: sources[0].columns.id: nested too deeply",
        ),
        (
            USERS.replace("[id]", "[id],\n     options: {mde: UPDATES}"),
            ":5: sources[0].options.mde: reading ydb-json has no option 'mde'; did you mean 'mode'?",
        ),
        (
            USERS.replace("ydb-json", "arcion-csv").replace("[id]", "[id], options: {trim: false,\n    header: 5}"),
            ":5: sources[0].options.header: reading arcion-csv: Expected `bool | null`, got `str`",
        ),
        (USERS.replace("[id]", "[id], options: {table: x}"), ":4: sources[0].options.table: not an option of a format: write it as table, next to options"),
        (
            USERS.replace("[id]", "[id], options: {schemas: x}"),
            ":4: sources[0].options.schemas: not an option of a format: write it as schema_file, next to options",
        ),
        (USERS.replace("[id]", "[id], schema_file: s.json"), ":4: sources[0].schema_file: s.json: No such file or directory"),
        (USERS + "  - {name: drop, type: files, path: in, format: xtdb}\n", ":5: sources[1].name: two sources are called 'drop': give each a name of its own"),
        (
            USERS + "  - {name: DROP, type: files, path: in, format: xtdb}\n",
            ":5: sources[1].name: 'DROP' differs from 'drop' in case only: give each a name of its own",
        ),
        (TABLES + "  - {name: a.b.c.d}\n", ":6: tables[0].name: 'a.b.c.d' is not a table name: write [catalog.][schema.]name"),
        (TABLES + "  - {name: a, source: drp}\n", ":6: tables[0].source: there is no source 'drp'; did you mean 'drop'?"),
        (TABLES + "  - {name: a}\n  - {name: '\"a\"'}\n", ":7: tables[1].name: tables[0] is a rule for the same table and all sources: merge them"),
        (
            TABLES + "  - {name: a, source: drop}\n  - {name: b}\n  - {name: a, source: drop}\n",
            ":8: tables[2].name: tables[0] is a rule for the same table and source 'drop': merge them",
        ),
        (TABLES + "  - name: a\n    columns: {a: strng}\n", ":7: tables[0].columns.a: there is no type 'strng'; did you mean 'string'?"),
        (TABLES + "  - {name: a, key: [x], columns: {xx: int64}}\n", ":6: tables[0].key[0]: the key column 'x' is not among the columns; did you mean 'xx'?"),
        (TABLES + "  - {name: a, id: 1}\n", ":6: tables[0].id: an id identifies columns: write them under columns"),
        (
            TABLES + "  - {name: a, id: 1, columns: {a: int64}}\n  - {name: b, id: 1, columns: {a: int64}, source: drop}\n",
            ":7: tables[1].id: another table also has the id 1",
        ),
        (
            USERS.replace("[id]", "[id], columns: {id: int64}") + "tables:\n  - {name: users, key: [uid]}\n",
            ":6: tables[0].key[0]: the key column 'uid' is not among the columns; did you mean 'id'?",
        ),
        (USERS + "feeds: [{name: f, table: a.b.c.d, topic: {type: table}}]\n", ":5: feeds[0].table: 'a.b.c.d' is not a table name: write [catalog.][schema.]name"),
        (
            USERS + "feeds:\n  - {name: f, table: a, with: {FORMAT: JSON, MODE: UPDATES}}\n  - {name: F, table: a, with: {FORMAT: JSON, MODE: UPDATES}}\n",
            ":7: feeds[1].name: 'F' differs from 'f' in case only: give each a name of its own",
        ),
        (USERS + "feeds:\n  - {name: f, table: a, with: {FORMAT: JSON, MODE: UPDATES}, source: drp}\n", ":6: feeds[0].source: there is no source 'drp'; did you mean 'drop'?"),
        (USERS + "feeds:\n  - {name: f, table: a}\n", ":6: feeds[0].with: FORMAT is missing: a feed needs FORMAT and MODE"),
        (
            USERS + "feeds:\n  - name: f\n    table: a\n    with:\n      FORMAT: JSON\n      mode: UPDATE\n",
            ":10: feeds[0].with.mode: MODE: there is no mode 'UPDATE'; did you mean 'UPDATES'?",
        ),
        (
            USERS + "feeds:\n  - name: f\n    table: a\n    with: {FORMAT: JSON, MODE: UPDATES}\n    options: {mode: a}\n",
            ":9: feeds[0].options: mode is not an option of the format here: write MODE",
        ),
        (
            USERS + "feeds:\n  - name: f\n    table: a\n    with: {FORMAT: JSON, MODE: UPDATES}\n    topic: {type: kafka, servers: h, name: '{tabel}'}\n",
            ":9: feeds[0].topic.name: a topic's name has no part {tabel}; did you mean 'table'?",
        ),
        (
            USERS + "feeds:\n  - name: f\n    table: a\n    with: {FORMAT: JSON, MODE: UPDATES}\n    topic: {type: kafka, servers: h, name: '{table'}\n",
            ":9: feeds[0].topic.name: '{table' is not a template: expected '}' before end of string",
        ),
        (
            USERS.replace(", key: [id]", ""),
            ":4: sources[0]: ydb-json: records hold the values of the key without the names of its columns;"
            " name them with --key a,b or in a schema",
        ),
    ],
)  # fmt: skip
def test_parts_that_do_not_agree(tmp_path: Path, text: str, message: str) -> None:
    assert refused(tmp_path, text) == f"shop.yaml{message}"


def test_a_schema_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"columns": {"id": "int46"}}')
    text = USERS.replace("[id]", "[id],\n     schema_file: ./s.json")
    assert refused(tmp_path, text) == (
        "shop.yaml:5: sources[0].schema_file: there is no type 'int46'; did you mean 'int64'?"
    )
    (tmp_path / "s.json").write_text("{")
    assert refused(tmp_path, text).startswith("shop.yaml:5: sources[0].schema_file: ./s.json: not JSON (")


def test_the_same_id_for_tables_of_different_sources(tmp_path: Path) -> None:
    text = USERS + "  - {name: two, type: files, path: in, format: xtdb}\n"
    rules = "tables:\n  - {name: a, id: 1, columns: {a: int64}, source: drop}\n"
    assert len(loaded(tmp_path, text + rules + rules[8:].replace("drop", "two")).definition.tables) == 2
