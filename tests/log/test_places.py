"""The same pipeline on other ground: a warehouse on S3, a cluster of two workers, spark-submit."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyspark
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import changeling
from tests.files.conftest import bucket, s3_endpoint
from tests.log.lakes import Shop, event
from tests.log.lakes import log_only as shop

__all__ = ["bucket", "s3_endpoint"]
SPARK_HOME = Path(pyspark.__file__).parent
pytestmark = pytest.mark.services
MAIN = Path(changeling.__file__).parent / "__main__.py"


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "changeling", *arguments], capture_output=True, text=True, check=False)


def keys(made: Shop) -> list[Any]:
    return [row["key"] for row in made.log()]


def test_a_warehouse_on_s3(tmp_path: Path, bucket: str, s3_endpoint: str) -> None:
    body = "\n".join([event(1), "broken", event(2)])
    boto3.client("s3").put_object(Bucket=bucket, Key="in/a.json", Body=body.encode())
    source = {"name": "drop", "type": "files", "path": f"s3://{bucket}/in/*.json", "format": "xtdb"}
    made = shop(tmp_path, source, warehouse=f"s3://{bucket}/lake")
    done = command("run", str(made.file), "--once")
    assert done.returncode == 3, done.stderr
    kept = command("maintain", "--pipeline", str(made.file))
    assert kept.returncode == 0, kept.stderr
    again = command("run", str(made.file), "--once", "--json")
    assert '"read": 0' in again.stdout
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db", **{"s3.endpoint": s3_endpoint, "s3.region": "eu-west-1"}
    )
    rows = catalog.load_table("shop.changes").scan().to_arrow().to_pylist()
    assert sorted(row["key"] for row in rows) == ['{"_id":"id-1"}', '{"_id":"id-2"}']
    assert [row["raw"] for row in catalog.load_table("shop.rejects").scan().to_arrow().to_pylist()] == [b"broken"]
    catalog.close()
    said = done.stdout + done.stderr + kept.stdout + kept.stderr + made.file.read_text()
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in said


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a standalone cluster of two workers on loopback."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    environment = {**os.environ, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    host = ["--host", "127.0.0.1"]
    calls = [["master.Master", *host, "--port", str(port), "--webui-port", str(free_port())]]
    calls += [
        [
            "worker.Worker",
            "-c",
            "1",
            "-m",
            "1g",
            "--host",
            "127.0.0.1",
            "-d",
            str(tmp_path / f"worker{number}"),
            address,
        ]
        for number in (1, 2)
    ]
    running = []
    try:
        for call in calls:
            line = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{call[0]}", *call[1:]]
            running.append(
                subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
            time.sleep(1)
        yield address
    finally:
        for process in reversed(running):
            process.send_signal(signal.SIGKILL)
            process.wait()


def test_a_cluster_of_two_workers(tmp_path: Path, cluster: str) -> None:
    settings = {"spark.master": cluster, "spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}
    source = {"name": "drop", "type": "files", "path": "in/*.json", "format": "xtdb"}
    made = shop(tmp_path / "lake", source, spark=settings)
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
