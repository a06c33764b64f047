"""What of YAML a pipeline file may use, and the variables of the environment in it."""

from pathlib import Path

import pytest

from changeling.pipelines.definition import FilesSource, KafkaSource
from tests.pipelines.pipeline_files import HEAD, USERS, loaded, refused, source


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: the file is empty; a pipeline has name, warehouse and sources"),
        ("# nothing\n", ":1: the file is empty; a pipeline has name, warehouse and sources"),
        ("[]", ":1: must be a mapping, not a list"),
        ("shop", ":1: must be a mapping, not text"),
        ("name: shop\nname: shop\n", ":2: name: is listed twice, first in line 1"),
        ("name: a: b\n", ":1: not YAML: mapping values are not allowed here"),
        ("name: a\n\tb: c\n", ":2: not YAML: found character '\\t' that cannot start any token"),
        ("name: *a\n", ":1: not YAML: found undefined alias 'a'"),
        ("name: a\n---\nname: b\n", ":2: not YAML: but found another document"),
        ("name: a\nwarehouse: \0\n", ":2: not YAML: the character '\\x00' is not allowed"),
        (b"name: a\nwarehouse: \xff\n", ":2: not UTF-8"),
        ('name: a\nwarehouse: "\\ud800"\n', ":2: warehouse: not Unicode: it has half of a surrogate pair"),
        (
            "name: !!python/name:os.system x\n",
            ":1: name: the tag !!python/name:os.system is not allowed: a pipeline is plain data",
        ),
        (
            "name: !!python/object/apply:os.system [x]\n",
            ":1: name: the tag !!python/object/apply:os.system is not allowed: a pipeline is plain data",
        ),
        ("name: !!binary eA==\n", ":1: name: the tag !!binary is not allowed: a pipeline is plain data"),
        ("name: !mine x\n", ":1: name: the tag !mine is not allowed: a pipeline is plain data"),
        ("sources: !!set {a}\n", ":1: sources: the tag !!set is not allowed: a pipeline is plain data"),
        ("name: shop\n1: x\n", ":2: the name 1 is not text to YAML: put it in quotes"),
        ("name: shop\non: x\n", ":2: the name on is not text to YAML: put it in quotes"),
        ("name: shop\n~: x\n", ":2: the name ~ is not text to YAML: put it in quotes"),
        ("name: shop\n[a]: x\n", ":2: a name must be text, not a list or a mapping"),
        ("name: no\n", ":1: name: no is a boolean to some readers of YAML: write false, or put it in quotes"),
        ("name: On\n", ":1: name: On is a boolean to some readers of YAML: write true, or put it in quotes"),
        ("a: &a {b: *a}\n", ":1: a.b: an alias is inside of what it repeats"),
        ("a: &a {<<: *a}\n", ":1: a: an alias is inside of what it repeats"),
        ("a: {<<: 1}\n", ":1: a: << takes a mapping, or a list of mappings"),
        ("a: " + "[" * 5000 + "]" * 5000, ":1: nested too deeply"),
        ("#" * 1_000_001, ":1: larger than 1000000 bytes: this is not a pipeline"),
    ],
)
def test_what_is_not_plain_data(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert refused(tmp_path, text) == f"shop.yaml{message}"


def test_aliases_that_grow_without_end(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    message = refused(tmp_path, "\n".join(lines))
    assert message.endswith(": aliases make more than 100000 values of it: this is not a pipeline")


def test_aliases_and_merges(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        HEAD
        + """\
  - &first {name: a, type: files, path: in, format: ydb-json, table: users, key: &key [id]}
  - {<<: *first, name: b, path: other}
  - {name: c, <<: [{format: xtdb, name: x}, *first]}
tables:
  - {name: users, key: *key}
""",
    )
    assert found.definition.sources == (
        FilesSource(name="a", path="in", format="ydb-json", table="users", key=("id",)),
        FilesSource(name="b", path="other", format="ydb-json", table="users", key=("id",)),
        FilesSource(name="c", path="in", format="xtdb", table="users", key=("id",)),
    )
    assert found.definition.tables[0].key == ("id",)


def test_an_error_in_what_was_merged_names_its_line(tmp_path: Path) -> None:
    text = (
        HEAD + "  - &first {name: a, type: files, path: in, format: xtdb,\n     tabel: x}\n  - {<<: *first, name: b}\n"
    )
    problems = refused(tmp_path, text).splitlines()
    assert problems[0] == "shop.yaml:5: sources[0].tabel: there is no such setting; did you mean 'table'?"
    assert problems[1].endswith("shop.yaml:5: sources[1].tabel: there is no such setting; did you mean 'table'?")


def test_scalars_that_other_readers_change_stay_texts(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        USERS + "spark: {a: 2024-01-01, b: 1:30, c: 010, d: 1_000, e: 0x1f, f: 1.10, g: 1e3, h: .inf, i: n,\n"
        '  j: 99999999999999999999, k: -5, l: TRUE, m: "5", n: !!str 5, o: =}\n',
    )
    assert found.definition.spark == {
        "a": "2024-01-01",
        "b": "1:30",
        "c": "010",
        "d": "1_000",
        "e": "0x1f",
        "f": "1.10",
        "g": "1e3",
        "h": ".inf",
        "i": "n",
        "j": "99999999999999999999",
        "k": -5,
        "l": True,
        "m": "5",
        "n": "5",
        "o": "=",
    }  # fmt: skip


def test_a_mark_of_byte_order_is_passed_over(tmp_path: Path) -> None:
    assert loaded(tmp_path, b"\xef\xbb\xbf" + USERS.encode()).definition.name == "shop"


def test_variables_are_filled_in_anywhere_in_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "broker")
    monkeypatch.setenv("PORT", "9092")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("NESTED", "${HOST}")
    found = loaded(
        tmp_path,
        HEAD
        + """\
  - name: bus
    type: kafka
    servers: ${HOST}:${PORT},b:1
    topics: ["${EMPTY}t", $$x, a$b, "$${HOST}", "$$${HOST}", "${NESTED}"]
    format: xtdb
    kafka: {user: "${HOST}"}
""",
    )
    one = source(found, "bus")
    assert isinstance(one, KafkaSource)
    assert one.servers == "broker:9092,b:1"
    assert one.topics == ("t", "$$x", "a$b", "${HOST}", "$${HOST}", "${HOST}")
    assert one.kafka == {"user": "broker"}
    assert found.secrets == ()


def test_variables_that_are_missing_or_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKE", raising=False)
    assert refused(tmp_path, USERS.replace("lake", "s3://x/${LAKE}")) == (
        "shop.yaml:2: warehouse: the environment has no variable LAKE; set it first"
    )
    monkeypatch.setenv("LAKE", "a\udcff")
    assert (
        refused(tmp_path, USERS.replace("lake", "${LAKE}")) == "shop.yaml:2: warehouse: the variable LAKE is not UTF-8"
    )


@pytest.mark.parametrize("text", ["${}", "${1}", "${LAKE:-x}", "${LAKE", "a${ LAKE }"])
def test_a_variable_without_a_name(tmp_path: Path, text: str) -> None:
    assert refused(tmp_path, USERS.replace("lake", f"'{text}'")) == (
        "shop.yaml:2: warehouse: ${ begins a variable: write ${NAME}, or $${ for a plain ${"
    )


def test_a_variable_without_quotes_in_brackets(tmp_path: Path) -> None:
    assert refused(tmp_path, USERS.replace("users", "${TABLE}")) == (
        "shop.yaml:4: not YAML: expected ',' or '}', but got '{';"
        " inside of { } and [ ] a value with ${…} must be quoted"
    )
