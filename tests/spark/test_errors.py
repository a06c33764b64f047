"""The end of the JVM is what is reported, whatever the failing call said."""

import subprocess
import sys
from collections.abc import Callable

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from changeling.model.errors import ChangelingError
from changeling.spark import errors, gateway
from changeling.spark.errors import SparkEnded, check_spark, translate_error, translated_errors

Started = Callable[[str], "subprocess.Popen[bytes]"]
SHOWN = [Py4JNetworkError("no answer"), Py4JError("no o12"), ConnectionRefusedError("refused"), EOFError()]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """A process instead of the JVM."""
    processes: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(gateway, "_started", processes)
    monkeypatch.setattr(errors, "_SOON", 0.1)

    def start(program: str) -> "subprocess.Popen[bytes]":
        processes.append(subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE))
        return processes[-1]

    return start


@pytest.mark.parametrize(
    ("program", "how"),
    [
        ("raise SystemExit(3)", "ended with exit code 3: "),
        ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL, which systems do that run out of memory: "),
        ("import os; os.kill(os.getpid(), 6)", "was killed by SIGABRT: "),
    ],
)
def test_how_the_jvm_ended(started: Started, program: str, how: str) -> None:
    jvm = started(program)
    jvm.wait()
    for error in SHOWN:
        with pytest.raises(SparkEnded) as ended, translated_errors():
            raise error
        assert str(ended.value).startswith(
            f"Spark's JVM (process {jvm.pid}) {how}nothing more can be done without it. "
        )
    assert type(translate_error(PySparkException("it stopped"))) is SparkEnded
    with pytest.raises(SparkEnded):
        check_spark(ChangelingError("what another thread said"))


def test_a_jvm_that_runs_is_not_to_blame(started: Started) -> None:
    jvm = started("input()")
    for error in SHOWN:
        check_spark(error)
    assert type(translate_error(Py4JError("a call that is wrong"))) is ChangelingError
    with pytest.raises(ConnectionRefusedError), translated_errors():
        raise ConnectionRefusedError
    gateway.end()
    assert jvm.returncode is not None


def test_nothing_is_known_of_a_jvm_that_another_started(started: Started) -> None:
    assert gateway.how_it_ended() is None
    gateway.end()
