"""The same pipeline on other ground: a warehouse on S3, a cluster of two workers, spark-submit."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import changeling
from demo.spark_cluster import SPARK_HOME, settings_for, spark_cluster
from tests.files.conftest import bucket, s3_endpoint
from tests.log.lakes import SMALL, Shop, event
from tests.log.lakes import log_only as shop

__all__ = ["bucket", "s3_endpoint"]
pytestmark = pytest.mark.services
MAIN = Path(changeling.__file__).parent / "__main__.py"
COMMANDS = """
import json, sys
from changeling.cli import main
print([main(call) for call in json.loads(sys.argv[1])])
"""
"""Several commands one after another, on one Spark; prints their exit codes."""


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "changeling", *arguments], capture_output=True, text=True, check=False)


def keys(made: Shop) -> list[Any]:
    return [row["key"] for row in made.log()]


def test_a_warehouse_on_s3(tmp_path: Path, bucket: str, s3_endpoint: str) -> None:
    body = "\n".join([event(1), "broken", event(2)])
    boto3.client("s3").put_object(Bucket=bucket, Key="in/a.json", Body=body.encode())
    source = {"name": "drop", "type": "files", "path": f"s3://{bucket}/in/*.json", "format": "xtdb"}
    made = shop(tmp_path, source, warehouse=f"s3://{bucket}/lake", spark=SMALL)
    file = str(made.file)
    calls = [["run", file, "--once"], ["maintain", "--pipeline", file], ["run", file, "--once", "--json"]]
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(calls)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    *printed, codes = done.stdout.splitlines()
    assert (codes, json.loads(printed[-1])["read"]) == ("[3, 0, 0]", 0)
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db", **{"s3.endpoint": s3_endpoint, "s3.region": "eu-west-1"}
    )
    rows = catalog.load_table("shop.changes").scan().to_arrow().to_pylist()
    assert sorted(row["key"] for row in rows) == ['{"_id":"id-1"}', '{"_id":"id-2"}']
    assert [row["raw"] for row in catalog.load_table("shop.rejects").scan().to_arrow().to_pylist()] == [b"broken"]
    catalog.close()
    said = done.stdout + done.stderr + made.file.read_text()
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in said


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    with spark_cluster(tmp_path) as address:
        yield address


def test_a_cluster_of_two_workers(tmp_path: Path, cluster: str) -> None:
    source = {"name": "drop", "type": "files", "path": "in/*.json", "format": "xtdb"}
    made = shop(tmp_path / "lake", source, spark=settings_for(cluster))
    # Files large enough that each is a task of its own.
    for file in range(4):
        made.write(
            f"{file}.json", *(event(number, filler="x" * 5_000) for number in range(file * 250, file * 250 + 250))
        )
    done = command("run", str(made.file), "--once")
    assert done.returncode == 0, done.stderr
    assert sorted(keys(made)) == sorted(f'{{"_id":"id-{number}"}}' for number in range(1_000))
    assert len(list((tmp_path / "lake" / "lake" / "shop" / "changes" / "data").rglob("*.parquet"))) == 4


def test_spark_submit(tmp_path: Path) -> None:
    made = shop(tmp_path)
    made.write("a.json", event(1), event(2))
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    line = [
        str(SPARK_HOME / "bin" / "spark-submit"),
        "--master",
        "local[2]",
        str(MAIN),
        "run",
        str(made.file),
        "--once",
    ]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert keys(made) == ['{"_id":"id-1"}', '{"_id":"id-2"}']
