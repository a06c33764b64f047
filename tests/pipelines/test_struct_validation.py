"""Members that are missing, unknown or of a wrong kind."""

from pathlib import Path

import pytest

from tests.pipelines.pipeline_files import HEAD, USERS, refused

FILES = "name: a, type: files, path: in, format: xtdb"
BUS = "name: a, type: kafka, servers: 'h:1', topics: [t], format: xtdb"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("", "sources[0]: type is missing; known: files, kafka, postgres"),
        ("type: fils", "sources[0].type: there is no type 'fils'; did you mean 'files'?"),
        ("type: 5", "sources[0].type: must be text, not the number 5; put it in quotes"),
        ("type: files, name: a, path: in", "sources[0]: format is missing"),
        ("type: files", "sources[0]: name, format, path are missing"),
        (f"{FILES}, tabel: x", "sources[0].tabel: there is no such setting; did you mean 'table'?"),
        (
            "name: a, type: postgres, url: x, tables: [t], zzz: 1",
            "sources[0].zzz: there is no such setting; known: batch_bytes, lag_alarm, name, publication, salt, slot, tables, type, url, without_identity",
        ),
        (f"{FILES}, key: id", "sources[0].key: must be a list, not text: write [id]"),
        (f"{FILES}, key: [1]", "sources[0].key[0]: must be text, not the number 1; put it in quotes"),
        (f"{FILES}, key: ['']", "sources[0].key[0]: must not be empty"),
        (f"{FILES}, key: {{a: b}}", "sources[0].key: must be a list, not a mapping"),
        (f"{FILES}, key:", "sources[0].key: must be a list, not nothing"),
        (f"{FILES}, table: true", "sources[0].table: must be text, not true; put it in quotes"),
        (f"{FILES}, table: [a]", "sources[0].table: must be text, not a list"),
        (f"{FILES}, options: [a]", "sources[0].options: must be a mapping, not a list"),
        (f"{FILES}, options: {{a: [b]}}", "sources[0].options.a: must be text, a number, true or false, not a list"),
        (f"{FILES}, options: {{a: }}", "sources[0].options.a: must be text, a number, true or false, not nothing"),
        (
            f"{FILES}, columns: {{a b: 5}}",
            'sources[0].columns["a b"]: must be text, not the number 5; put it in quotes',
        ),
        (f"{FILES}, carrier: kct", "sources[0].carrier: there is no carrier 'kct'; did you mean 'kcat'?"),
        (f"{FILES}, carrier: 1", "sources[0].carrier: must be text, not the number 1; put it in quotes"),
        (f"{FILES}, on_error: stop", "sources[0].on_error: there is no on_error 'stop'; known: fail, reject"),
        (f"{FILES}, batch_bytes: 0", "sources[0].batch_bytes: must be at least 1"),
        (f"{FILES}, batch_files: 1.5", "sources[0].batch_files: must be a whole number, not text"),
        (f"{FILES}, batch_files: true", "sources[0].batch_files: must be a whole number, not true"),
        (f"{BUS}, start: first", "sources[0].start: there is no start 'first'; known: earliest, latest"),
        (f"{BUS}, on_gap: ski", "sources[0].on_gap: there is no on_gap 'ski'; did you mean 'skip'?"),
        (BUS.replace("[t]", "[]"), "sources[0].topics: must not be empty"),
        (BUS.replace("[t]", "t"), "sources[0].topics: must be a list, not text: write [t]"),
        (
            FILES.replace("name: a", "name: a-b"),
            "sources[0].name: must be a letter, then letters, digits and underscores, at most 63 in all",
        ),
    ],
)
def test_sources_of_a_wrong_shape(tmp_path: Path, settings: str, message: str) -> None:
    assert refused(tmp_path, f"{HEAD}  - {{{settings}}}\n") == f"shop.yaml:4: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: shop\nsources: [{type: postgres, name: pg, url: u, tables: [t]}]\n", ":1: warehouse is missing"),
        ("name: shop\nwarehouse: x\nsources: []\n", ":3: sources: must not be empty"),
        (USERS.replace("lake", "''"), ":2: warehouse: must not be empty"),
        ("name: shop\nwarehouse: x\nsources:\n  - a\n", ":4: sources[0]: must be a mapping, not text"),
        ("name: shop\nwarehouse: x\nsorces: []\n", ":3: sorces: there is no such setting; did you mean 'sources'?"),
        (USERS.replace("shop", "true"), ":1: name: must be a letter, then letters, digits and underscores, at most 63 in all"),
        (f"{USERS}settle: 10\n", ":5: settle: must be a number and ms, s, m, h or d, as in 10s"),
        (f"{USERS}retention: 30 weeks\n", ":5: retention: must be a number and ms, s, m, h or d, as in 10s"),
        (f"{USERS}spark: {{spark.a: {{b: c}}}}\n", ':5: spark["spark.a"]: must be text, a number, true or false, not a mapping'),
        (f"{USERS}tables:\n  - name: users\n    mode: merg\n", ":7: tables[0].mode: there is no mode 'merg'; did you mean 'merge'?"),
        (f"{USERS}tables:\n  - name: users\n    schema: x\n", ":7: tables[0].schema: there is no schema 'x'; known: evolve, fail, ignore"),
        (f"{USERS}tables:\n  - name: users\n    id: -1\n", ":7: tables[0].id: must be at least 0"),
        (f"{USERS}tables:\n", ":5: tables: must be a list, not nothing"),
        (f"{USERS}feeds:\n  - {{name: f}}\n", ":6: feeds[0]: table is missing"),
        (f"{USERS}feeds:\n  - {{name: f, table: t, topic: {{type: table, partitions: 0}}}}\n", ":6: feeds[0].topic.partitions: must be at least 1"),
        (f"{USERS}feeds:\n  - {{name: f, table: t, topic: {{type: file}}}}\n", ":6: feeds[0].topic.type: there is no type 'file'; did you mean 'files'?"),
        (f"{USERS}feeds:\n  - {{name: f, table: t, topic: {{type: kafka}}}}\n", ":6: feeds[0].topic: servers is missing"),
        (f"{USERS}targets:\n  - {{name: f}}\n", ":6: targets[0]: type is missing; known: postgres"),
        (f"{USERS}targets:\n  - {{name: f, type: mysql}}\n", ":6: targets[0].type: there is no type 'mysql'; known: postgres"),
    ],
)  # fmt: skip
def test_parts_of_a_wrong_shape(tmp_path: Path, text: str, message: str) -> None:
    assert refused(tmp_path, text) == f"shop.yaml{message}"
