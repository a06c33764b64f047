"""Which files paths match, and how files are opened."""

import gzip
import io
import os
from pathlib import Path

import boto3
import pytest

from changeling.files.paths import FileRef, expand, missing_folder, open_input, total_bytes
from changeling.model.errors import ChangelingError, UsageError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "in/b.json",
        "in/a.json",
        "in/deep/er/c.json",
        "in/.hidden",
        "in/_SUCCESS",
        "in/_tmp/d.json",
        "x[1].json",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    (tmp_path / "in" / "note.txt").write_text("no json\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def paths(*given: str) -> list[str]:
    return [place.path for place in expand(given)]


def test_files_keep_their_order_and_spelling(folder: Path) -> None:
    assert paths("in/b.json", "./in/a.json") == ["in/b.json", "./in/a.json"]
    assert paths(f"{folder}/in/a.json", "-") == [f"{folder}/in/a.json", "-"]


def test_a_folder_is_all_files_below_it_sorted(folder: Path) -> None:
    expected = ["in/a.json", "in/b.json", "in/deep/er/c.json", "in/note.txt"]
    assert paths("in") == expected
    assert paths("in/") == expected


def test_patterns(folder: Path) -> None:
    assert paths("in/*.json") == ["in/a.json", "in/b.json"]
    assert paths("in/?.json", "in/a.json") == ["in/a.json", "in/b.json", "in/a.json"]
    assert paths("in/**/*.json") == ["in/a.json", "in/b.json", "in/deep/er/c.json"]
    assert paths("i*") == ["in/a.json", "in/b.json", "in/deep/er/c.json", "in/note.txt"]
    assert paths("in/_*SS") == ["in/_SUCCESS"]


def test_brackets_in_a_name_are_no_pattern(folder: Path) -> None:
    assert paths("x[1].json") == ["x[1].json"]
    assert paths("x[1].*") == ["x[1].json"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("in/c.jsn", "in/c.jsn: there is no such file"),
        ("in/aa.json", "in/aa.json: there is no such file; did you mean 'a.json'?"),
        ("inn", "inn: there is no such file; did you mean 'in'?"),
        ("in/*.csv", "in/*.csv: no file matches"),
        ("nowhere/at/all", "nowhere/at/all: there is no such file, and no such folder"),
        ("empty", "empty: there is no file in this folder"),
    ],
)
def test_a_path_that_stands_for_nothing_is_a_wrong_call(folder: Path, path: str, message: str) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(UsageError) as caught:
        expand([path])
    assert str(caught.value).startswith(message)


def test_total_bytes(folder: Path) -> None:
    assert total_bytes(expand(["in"])) == 17
    assert total_bytes(expand(["in", "-"])) is None
    assert total_bytes([]) == 0


def test_a_file_that_cannot_be_opened_is_named(folder: Path) -> None:
    with pytest.raises(ChangelingError, match=r"gone\.json: No such file"):
        open_input(FileRef("gone.json"))
    os.symlink("nowhere", folder / "in" / "link")
    with pytest.raises(ChangelingError, match="in/link: No such file"):
        expand(["in"])


def content(path: Path, size: int = 7) -> tuple[bytes, str | None]:
    parts = []
    with open_input(FileRef(str(path))) as source:
        while part := source.read(size):
            parts.append(part)
        return b"".join(parts), source.damage.reason if source.damage else None


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    packed = tmp_path / "plain.json"
    packed.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n") + bytes(512))
    assert content(packed) == (b"one\ntwo\n", None)
    plain = tmp_path / "named.gz"
    plain.write_bytes(b"text")
    assert content(plain) == (b"text", None)
    plain.write_bytes(b"\x1f")
    assert content(plain) == (b"\x1f", None)


def test_all_that_can_be_unpacked_is_given(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    text = b"".join(b'{"id":%d}\n' % number for number in range(50_000))
    packed = gzip.compress(text)
    path.write_bytes(packed[:-9])
    found, damage = content(path, 1 << 20)
    assert found == text[: len(found)]
    assert len(found) > len(text) * 0.99
    assert damage == "the gzip stream ends too early"

    path.write_bytes(packed[:-8] + b"\0\0\0\0" + packed[-4:])
    assert content(path, 1 << 20) == (
        text,
        "the gzip stream is broken: Error -3 while decompressing data: incorrect data check",
    )

    middle = len(packed) // 2
    path.write_bytes(packed[:middle] + b"\xff" * 50 + packed[middle + 50 :])
    found, damage = content(path, 1 << 20)
    assert len(found) > len(text) // 3
    assert damage is not None

    path.write_bytes(packed + b"trailing words")
    assert content(path, 1 << 20) == (text, "what follows the gzip stream is not gzip")


def test_a_bomb_is_unpacked_bit_by_bit(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(50_000_000)))
    with open_input(FileRef(str(path))) as source:
        assert len(source.read(1000)) == 1000
        assert source.consumed < 60_000


def test_standard_input_is_read_and_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(gzip.compress(b"words")))
    monkeypatch.setattr("sys.stdin", stdin)
    with open_input(FileRef("-")) as source:
        assert source.read(100) == b"words"
    assert not stdin.closed


@pytest.fixture
def stocked(bucket: str) -> str:
    client = boto3.client("s3")
    for key in ("in/b.json", "in/a.json", "in/deep/c.json", "in/_SUCCESS", "in/_tmp/d.json", "other.txt"):
        client.put_object(Bucket=bucket, Key=key, Body=gzip.compress(b"{}\n"))
    client.close()
    return bucket


def test_objects(stocked: str) -> None:
    assert paths("s3://lake/in/a.json") == ["s3://lake/in/a.json"]
    below = ["s3://lake/in/a.json", "s3://lake/in/b.json", "s3://lake/in/deep/c.json"]
    assert paths("s3://lake/in") == below
    assert paths("s3://lake/in/") == below
    assert paths("s3://lake") == [*below, "s3://lake/other.txt"]
    assert paths("s3://lake/in/*.json") == below[:2]
    assert paths("s3://lake/**/*.json") == below
    assert paths("s3://lake/i?/**") == below
    assert total_bytes(expand(["s3://lake/in/a.json"])) == len(gzip.compress(b"{}\n"))
    with open_input(expand(["s3://lake/in/a.json"])[0]) as source:
        assert source.read(100) == b"{}\n"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://lake/in/aa.json", "s3://lake/in/aa.json: there is no such file; did you mean 'a.json'?"),
        ("s3://lake/in/*.csv", "s3://lake/in/*.csv: no file matches"),
        ("s3://ocean/in", "s3://ocean: there is no such bucket"),
        ("s3://", "s3://: no bucket"),
    ],
)
def test_an_object_that_is_not_there_is_a_wrong_call(stocked: str, path: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        expand([path])
    assert str(caught.value).startswith(message)


def test_an_object_that_went_away_is_named(stocked: str) -> None:
    with pytest.raises(ChangelingError, match=r"s3://lake/in/gone\.json: "):
        open_input(FileRef("s3://lake/in/gone.json"))


def test_secrets_never_reach_a_message(stocked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError) as caught:
        expand(["s3://key:very+secret@lake/in"])
    assert "secret@" not in str(caught.value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://user:very+secret@127.0.0.1:1")
    with pytest.raises(ChangelingError) as failed:
        expand(["s3://lake/in"])
    assert "very+secret" not in str(failed.value)
    assert str(failed.value).startswith("s3://lake")


def test_the_folder_of_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("{}")
    here, gone = str(tmp_path / "in"), str(tmp_path / "out")
    for path in (here, f"{here}/*.json", f"{here}/2*/x.json", "-", "s3://bucket/out", "*.json"):
        assert missing_folder(path) is None
    for path in (gone, f"{gone}/*.json", f"{gone}/a*/x.json"):
        assert missing_folder(path) == gone
