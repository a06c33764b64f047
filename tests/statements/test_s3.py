"""000-01: data bound for S3 becomes files in CSV or in JSON, as the command line writes and reads them."""

import subprocess
from contextlib import closing
from pathlib import Path

import boto3
import pytest

from tests.cli.conftest import COMMAND
from tests.files.conftest import bucket, s3_endpoint

__all__ = ["bucket", "s3_endpoint"]
USERS = Path(__file__).parents[1] / "golden" / "xtdb" / "seed-create" / "input.jsonl"


@pytest.mark.parametrize("form", ["arcion-json", "arcion-csv"])
def test_000_01_files_on_s3_in_both_forms(form: str, bucket: str, tmp_path: Path) -> None:
    place = f"s3://{bucket}/out/{form}"
    written = [str(COMMAND), "convert", str(USERS), "--from", "xtdb", "--to", form, "-O", place]
    assert subprocess.run(written, check=False, capture_output=True).returncode == 0
    here = tmp_path / "out"
    assert subprocess.run([*written[:-1], str(here)], check=False, capture_output=True).returncode == 0
    with closing(boto3.client("s3")) as client:
        stored = client.get_object(Bucket=bucket, Key=f"out/{form}")["Body"].read()
    assert stored == here.read_bytes()
    read = [str(COMMAND), "decode", place, "--from", form, "--table", "users"]
    done = subprocess.run(read, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"name":"John Doe"' in done.stdout
    assert f'"file":"{place}"' in done.stdout
