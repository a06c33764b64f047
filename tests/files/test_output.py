"""An output appears complete or not at all."""

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

from changeling.files.output import Output
from changeling.model.errors import ChangelingError, UsageError


class Stop(Exception):
    pass


def fail(path: str, data: bytes) -> None:
    with Output(path) as out:
        out.write(data)
        raise Stop


def test_a_file_appears_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "out.jsonl"
    with Output(str(target)) as out:
        out.write(b"one\n")
        assert not target.exists()
        out.write(b"two\n")
    assert target.read_bytes() == b"one\ntwo\n"
    assert os.listdir(target.parent) == ["out.jsonl"]


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_a_failure_leaves_what_was_there(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    target.write_bytes(b"old")
    with pytest.raises(Stop):
        fail(str(target), b"new")
    assert target.read_bytes() == b"old"
    with pytest.raises(KeyboardInterrupt), Output(str(tmp_path / "fresh")):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == [name]


def test_gzip_by_name_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with Output(str(tmp_path / name)) as out:
            out.write(b"words\n" * 1000)
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"words\n" * 1000
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_links_and_modes_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "out", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    with Output(str(link)) as out:
        out.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_at_once() -> None:
    with Output("/dev/null") as out:
        out.write(b"words")
    assert not Path("/dev/null").is_file()


def test_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr("sys.stdout", stdout)
    with Output("-") as out:
        out.write(b"words")
    assert stdout.buffer.getvalue() == b"words"


def test_targets_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        Output(str(tmp_path)).__enter__()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ChangelingError, match=r"Not a directory|File exists"):
        Output(str(tmp_path / "file" / "below")).__enter__()


def keys() -> list[str]:
    client = boto3.client("s3")
    try:
        return [found["Key"] for found in client.list_objects_v2(Bucket="lake").get("Contents", [])]
    finally:
        client.close()


@pytest.mark.parametrize("size", [10, 12 * 1024 * 1024])
def test_an_object_appears_at_the_end(bucket: str, size: int) -> None:
    with Output("s3://lake/out/x.jsonl") as out:
        out.write(b"y" * size)
        assert keys() == []
    assert keys() == ["out/x.jsonl"]
    with pytest.raises(Stop):
        fail("s3://lake/out/x.jsonl", b"z" * size)
    client = boto3.client("s3")
    assert client.get_object(Bucket="lake", Key="out/x.jsonl")["Body"].read() == b"y" * size
    client.close()


FAILS = """
from changeling.files.output import Output
with Output("s3://lake/out/failed") as out:
    out.write(b"z" * 12_000_000)
    raise SystemExit(1)
"""


def test_a_failed_upload_does_not_appear_when_the_process_ends(bucket: str) -> None:
    done = subprocess.run([sys.executable, "-c", FAILS], env=dict(os.environ), timeout=60, check=False)
    assert done.returncode == 1
    assert keys() == []


def test_objects_that_cannot_be(bucket: str) -> None:
    with pytest.raises(UsageError, match="no such bucket"):
        Output("s3://ocean/x").__enter__()
    with pytest.raises(UsageError, match="is a folder"):
        Output("s3://lake/x/").__enter__()
