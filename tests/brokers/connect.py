"""Kafka Connect in a process of its own, as anybody runs it: one worker with sinks, and what they write."""

import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from changeling.spark.java import find_java
from tests.brokers.broker_jars import connect_jars

_JAVA = ("-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_SECONDS = 90
_STOP_SECONDS = 20
_JSON = "org.apache.kafka.connect.json.JsonConverter"


def converters(*, schemas: bool) -> dict[str, str]:
    """The settings of a sink whose keys and values are JSON, with the schemas of Connect or without."""
    enabled = str(schemas).lower()
    return {
        name: value
        for part in ("key", "value")
        for name, value in ((f"{part}.converter", _JSON), (f"{part}.converter.schemas.enable", enabled))
    }


class Connect:
    """A worker whose sinks read committed records from the beginning; it is ended with the block.

    Each sink is given by the settings of its connector.
    """

    def __init__(self, servers: str, *sinks: Mapping[str, str]) -> None:
        self._servers, self._sinks = servers, sinks

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="changeling-connect-")
        room = Path(self._folder.name)
        given = [self._worker(room), *({"name": f"sink{number}", **sink} for number, sink in enumerate(self._sinks))]
        files = [room / f"{number}.properties" for number in range(len(given))]
        for file, settings in zip(files, given, strict=True):
            file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._output = room / "output.txt"
        command = [str(find_java()[0]), *_JAVA, "-cp", str(connect_jars() / "*")]
        command += ["org.apache.kafka.connect.cli.ConnectStandalone", *map(str, files)]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def until(self, is_done: Callable[[], bool]) -> None:
        """Waits until the sinks have written all; raises `RuntimeError` with the output of the worker where they do not."""
        until = time.monotonic() + _SECONDS
        while not is_done():
            if self._process.poll() is not None or time.monotonic() > until:
                output = self._output.read_text(errors="replace")[-5_000:]
                raise RuntimeError(f"the sinks of Kafka Connect have not written all:\n{output}")
            time.sleep(0.1)

    def _worker(self, room: Path) -> dict[str, str]:
        return {
            "bootstrap.servers": self._servers,
            "key.converter": _JSON,
            "value.converter": _JSON,
            "plugin.discovery": "service_load",
            "offset.storage.file.filename": str(room / "offsets"),
            # Of the interface that nobody asks: on a port of its own.
            "listeners": "http://127.0.0.1:0",
            "consumer.isolation.level": "read_committed",
            "consumer.auto.offset.reset": "earliest",
        }
