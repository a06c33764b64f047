"""A standalone cluster of Spark with two workers, on this machine."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
_HOST = "127.0.0.1"


@contextmanager
def spark_cluster(folder: Path, memory: str = "1g") -> Iterator[str]:
    """The address of a cluster whose workers have a core and so much memory each; their files are in `folder`."""
    port = _free_port()
    address = f"spark://{_HOST}:{port}"
    environment = {**os.environ, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": _HOST}
    calls = [["master.Master", "--host", _HOST, "--port", str(port), "--webui-port", str(_free_port())]]
    for number in (1, 2):
        place = ["-d", str(folder / f"worker{number}")]
        calls.append(["worker.Worker", "-c", "1", "-m", memory, "--host", _HOST, *place, address])
    running = []
    try:
        for name, *arguments in calls:
            line = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
            running.append(
                subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
            time.sleep(1)
        yield address
    finally:
        for process in reversed(running):
            process.send_signal(signal.SIGKILL)
            process.wait()


def settings_for(address: str, memory: str = "512m") -> dict[str, str]:
    """What a pipeline on the cluster says of Spark."""
    return {"spark.master": address, "spark.driver.host": _HOST, "spark.executor.memory": memory}


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind((_HOST, 0))
        return int(taken.getsockname()[1])
