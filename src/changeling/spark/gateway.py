"""Starts and ends Spark's JVM, and names its classes; reports a missing Java, and how a JVM ended that nobody stopped."""

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from py4j.java_gateway import GatewayClient, JavaClass, JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from changeling.model.errors import ChangelingError
from changeling.spark.java import find_java

# The JVM prints these before any logging is set up: Spark asks for that module at every start, and users may set that
# variable for every Java program.
_NOISE = (b"WARNING: Using incubator modules: jdk.incubator.vector", b"Picked up JAVA_TOOL_OPTIONS: ")
_SHUTDOWN_SECONDS = 10.0
"""How long the JVM may take to shut down."""
_started: "list[subprocess.Popen[bytes]]" = []
"""The JVMs that this process started, the last one last."""


class _Settings(dict[str, Any]):
    """The arguments that start a process; a `preexec_fn` of PySpark runs in addition to ours."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _ignoring_stop_signals(value) if name == "preexec_fn" else value)


def _ignoring_stop_signals(before: Callable[[], object] | None) -> Callable[[], None]:
    """Shields the JVM from signals that stop all processes of a service: this process decides when a batch is done.

    The JVM does not handle a signal that is ignored when it starts, and its child processes inherit the blocked signals.
    """

    def prepare() -> None:
        if before is not None:
            before()
        stop_signals = (signal.SIGTERM, signal.SIGINT)
        for number in stop_signals:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals)

    return prepare


def _is_not_py4j(record: logging.LogRecord) -> bool:
    """Py4j logs a connection that breaks in the middle of a command by the root logger, with a traceback."""
    return record.module != "java_gateway"


def start(conf: SparkConf) -> JavaGateway:
    """A new JVM with these settings; raises `ChangelingError` where there is no Java, or one that is too old."""
    java, _ = find_java()
    read_end, write_end = os.pipe()
    threading.Thread(target=_forward_stderr, args=(read_end,), name="spark-stderr", daemon=True).start()
    # `how_it_ended` reports a broken connection, so py4j need not.
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    logging.getLogger().addFilter(_is_not_py4j)
    # A session of its own: neither Ctrl-C nor a signal to the group reaches it. It ends when this process closes its input.
    settings = _Settings(stderr=write_end, start_new_session=True, preexec_fn=_ignoring_stop_signals(None))
    try:
        gateway = launch_gateway(conf, settings)  # type: ignore[no-untyped-call]
        _started.append(gateway.proc)
        return gateway
    except PySparkException as error:
        raise ChangelingError(f"Spark's JVM ({java}) did not start: {error}") from error
    finally:
        os.close(write_end)


def how_it_ended(wait: float = 0.0) -> str | None:
    """How the JVM that this process started ended unasked, and what to do; None while it runs.

    `wait`: how many seconds to wait for its end, after its connection broke.
    """
    if not _started:
        return None
    jvm = _started[-1]
    with suppress(subprocess.TimeoutExpired):
        jvm.wait(wait)
    code = jvm.returncode
    if code is None:
        return None
    how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    memory = ", which systems do that run out of memory" if code == -signal.SIGKILL else ""
    return (
        f"Spark's JVM (process {jvm.pid}) {how}{memory}: nothing more can be done without it. What is in the log stays; run "
        "the command again, and where memory is short give it less with spark.driver.memory, or more to the machine"
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def end() -> None:
    """Ends the JVM that this process started, with its jobs; returns when it is gone."""
    for jvm in _started:
        with suppress(OSError):
            if jvm.stdin is not None:
                jvm.stdin.close()
        try:
            jvm.wait(_SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            jvm.kill()
            jvm.wait()


def _forward_stderr(read_end: int) -> None:
    with open(read_end, "rb") as lines:
        for line in lines:
            if not line.startswith(_NOISE):
                os.write(2, line)


class JavaNames:
    """A package of Java, whose attributes are packages (in lower case) and classes.

    Py4j's own view searches all jars for a class of every part of a name, each time: `jvm.org.apache.iceberg.SchemaParser` are
    three searches in vain.
    """

    def __init__(self, client: GatewayClient, package: str = "") -> None:
        self._client = client
        self._package = package

    @staticmethod
    def of(context: SparkContext) -> "JavaNames":
        """All packages that the JVM of a context knows."""
        gateway: Any = context._gateway
        return JavaNames(gateway._gateway_client)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        path = f"{self._package}.{name}" if self._package else name
        found = JavaClass(path, self._client) if name[0].isupper() else JavaNames(self._client, path)
        setattr(self, name, found)
        return found
