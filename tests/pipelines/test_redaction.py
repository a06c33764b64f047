"""Passwords are never shown, addresses are."""

import base64
import pickle
from pathlib import Path
from urllib.parse import quote

import pytest

from changeling.formats import registry
from changeling.model.errors import nearest
from changeling.model.types import SIMPLE
from tests.pipelines.pipeline_files import HEAD, USERS, loaded, refused

SECRET = "p ä/s+s'\"w\\rd"


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("format: '${SECRET}'", "format: there is no format '***'; " + nearest("", registry.names())),
        ("format: 'x-${SECRET}'", "format: there is no format '***'; " + nearest("", registry.names())),
        ("table: 'a.b.c.${SECRET}'", "table: '***' is not a table name: write [catalog.][schema.]name"),
        (
            "key: [a], columns: {a: '${SECRET}'}",
            "columns.a: there is no type '***'; " + nearest("", [*SIMPLE, "decimal(p,s)", "array<T>"]),
        ),
        (
            "key: [a], columns: {a: 'array<${SECRET}>'}",
            "columns.a: there is no type '***'; " + nearest("", [*SIMPLE, "decimal(p,s)", "array<T>"]),
        ),
        (
            "key: ['${SECRET}'], columns: {column: int64}",
            "key[0]: the key column '***' is not among the columns; known: column",
        ),
        ("key: ['${SECRET}', '${SECRET}']", "key[1]: the column '***' is listed twice"),
        ("schema_file: '${SECRET}'", "schema_file: ***: No such file or directory"),
        ("on_error: '${SECRET}'", "on_error: there is no on_error '***'; known: fail, reject"),
        ("type: '${SECRET}'", "type: there is no type '***'; known: files, kafka, postgres"),
        (
            "name: '4${SECRET}'",
            "name: must be a letter, then letters, digits and underscores, at most 63 in all",
        ),
        ("batch_bytes: '${SECRET}'", "batch_bytes: must be a whole number, not text"),
        ("key: '${SECRET}'", "key: must be a list, not text: write [***]"),
        (
            "options: {mode: '${SECRET}'}",
            "options.mode: reading ydb-json: there is no mode '***'; known: KEYS_ONLY, NEW_AND_OLD_IMAGES, NEW_IMAGE, OLD_IMAGE, UPDATES",
        ),
    ],
)
@pytest.mark.parametrize("secret", [SECRET, "sesame", "ab", "x"])
def test_errors_never_show_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str, setting: str, problem: str
) -> None:
    monkeypatch.setenv("SECRET", secret)
    usual = {"name": "drop", "type": "files", "path": "in", "format": "ydb-json", "key": "[id]"}
    settings = [f"{name}: {value}" for name, value in usual.items() if f"{name}: " not in setting]
    text = f"{HEAD}  - {{{', '.join(settings)}, {setting}}}\n"
    assert refused(tmp_path, text) == f"shop.yaml:4: sources[0].{problem}"


def test_names_of_sources_from_the_environment_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "abc")
    rules = "tables:\n  - {name: users, source: other}\n"
    assert refused(tmp_path, USERS.replace("drop", "'${SECRET}'") + rules) == (
        "shop.yaml:6: tables[0].source: there is no source 'other'; known: ***"
    )


def test_secrets_are_removed_from_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = "postgresql://me:p%40ss%2Fw@db/shop"
    monkeypatch.setenv("URL", address)
    monkeypatch.setenv("SECRET", SECRET)
    monkeypatch.setenv("PIN", "17")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("TOKEN_FROM_FILE", "sesame\n")
    found = loaded(tmp_path, USERS.replace("path: in", "path: '${URL}${SECRET}${PIN}${EMPTY}${TOKEN_FROM_FILE}'"))
    assert found.redacted("nothing to hide") == "nothing to hide"
    assert found.redacted(f"cannot reach {address}!") == "cannot reach postgresql://me:***@db/shop!"
    assert found.redacted("bad password p%40ss%2Fw, p@ss/w") == "bad password ***, ***"
    assert found.redacted(f"<{SECRET}> <{SECRET!r}>") == "<***> <'***'>"
    quoted = [quote(SECRET), quote(SECRET, safe=""), quote(SECRET).lower(), "p+%C3%A4%2Fs%2Bs%27%22w%5Crd"]
    assert [found.redacted(f"?p={form}&") for form in quoted] == ["?p=***&"] * 4
    assert (
        found.redacted('{"p": "p ä/s+s\'\\"w\\\\rd", "q": "p \\u00e4/s+s\'\\"w\\\\rd"}') == '{"p": "***", "q": "***"}'
    )
    assert found.redacted("17 of 170, 1.17") == "*** of 170, 1.***"
    assert found.redacted("sesame opens") == "*** opens"
    for before in ("", "a", "ab", "abc", "user:"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(f"{before}{SECRET}:x".encode()).decode()
            assert base64.b64encode(SECRET.encode())[3:-3].decode() not in found.redacted(text)
            assert "***" in found.redacted(text)
    assert found.redacted(base64.b64encode(SECRET.encode()).decode()) == "***"
    assert loaded(tmp_path, USERS).redacted("anything") == "anything"


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("KAFKA", "broker-1.example.com:9092,broker-2:9092", "broker-1.example.com:9092,broker-2:9092"),
        ("PLACE", "s3://lake-2026/Shop/Orders/Archive", "s3://lake-2026/Shop/Orders/Archive"),
        ("FOLDER", "/var/lib/Changeling/Shop/2026", "/var/lib/Changeling/Shop/2026"),
        ("PG_URL", "postgresql://me:open%20sesame@db:5432/shop", "postgresql://me:***@db:5432/shop"),
        ("PG_URL", "host=db user=me password='open sesame' dbname=shop", "host=db user=me password='***' dbname=shop"),
        ("JAAS", 'Plain required username="me" password="s3same";', "***"),
        (
            "SOMETHING",
            'Plain required username="me" password="s3same";',
            'Plain required username="me" password="***";',
        ),
        ("DB_PW", "sesame", "***"),
        ("DBPASSWORD", "sesame", "***"),
        ("ACCESS_KEY", "sesame", "***"),
        ("MONKEY", "george", "george"),
        ("A", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "***"),
        ("A", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x-Y", "***"),
        ("A", "9e107d9d372bb6826bd81d3542a419d6", "***"),
    ],
)
def test_what_looks_like_a_password_is_masked_and_an_address_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, shown: str
) -> None:
    monkeypatch.setenv(name, value)
    found = loaded(tmp_path, USERS.replace("path: in", f"path: '${{{name}}}'"))
    assert found.redacted(f"cannot open <{value}>") == f"cannot open <{shown}>"


def test_a_password_that_the_file_spells_out_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PART", "sesame")
    catalog = "catalog: {uri: 'https://me:open${PART}@rest/', token: tulip, s3.secret-access-key: rose, type: rest}\n"
    found = loaded(tmp_path, USERS.replace("key: [id]", "key: [id], columns: {id: int64, token: string}") + catalog)
    texts = {"opensesame at rest": "*** at rest", "tulip rose": "*** ***", "string rest": "string rest"}
    assert {text: found.redacted(text) for text in texts} == texts


def test_nothing_shows_secrets_by_accident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "sesame")
    found = loaded(tmp_path, USERS.replace("path: in", "path: '${SECRET}'"))
    assert "sesame" not in repr(found)
    assert pickle.loads(pickle.dumps(found)).redacted("sesame") == "***"
