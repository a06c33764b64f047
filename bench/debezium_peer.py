"""Debezium's embedded engine, run in a virtual environment of its own (see `debezium_runs`), without Changeling.

`python debezium_peer.py REQUEST RESULT`: reads replication slots one after the other in one JVM, each up to a number of
changes, and writes what it took. It ends when its standard input does, so that it never outlives its parent.
"""

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

_STALLED_SECONDS = 120.0


@dataclass(frozen=True)
class PeerStats:
    """What reading one slot took."""

    changes: int
    seconds: float
    """From the start of the engine, in a running JVM, to the last batch."""
    first_changes: int
    """Those of the first batch."""
    rest_seconds: float
    """From the first batch to the last: without connecting and starting, and without the changes of the first batch."""
    cpu_seconds: float
    """Of all threads, from the start of the engine to the last batch."""
    server_cpu_seconds: float
    """Of the database server, for the same time."""


class _Tally:
    """Counts changes as batches arrive."""

    def __init__(self, wanted: int, server: int) -> None:
        self.reached = threading.Event()
        self.changes = 0
        self._wanted, self._server = wanted, server
        self._cpu, self._server_cpu = _cpu(), server_cpu_seconds(server)
        self._started = time.perf_counter()
        self._first: tuple[float, int] | None = None
        self._stats: PeerStats | None = None

    def take(self, records: Any) -> None:
        now, count = time.perf_counter(), len(records)
        self.changes += count
        if self._first is None:
            self._first = now, count
        if self.changes >= self._wanted and self._stats is None:
            at, first = self._first
            cpu, server_cpu = _cpu() - self._cpu, server_cpu_seconds(self._server) - self._server_cpu
            self._stats = PeerStats(self.changes, now - self._started, first, now - at, cpu, server_cpu)
            self.reached.set()

    def stats(self) -> PeerStats:
        if self._stats is None:
            raise RuntimeError(f"Debezium stopped after {self.changes} of {self._wanted} changes")
        return self._stats


def main(request: Path, result: Path) -> None:
    import_module("pydbzengine.engine.jvm").ensure_jvm_started()
    given = json.loads(request.read_text())
    settings, server = given["settings"], given["server"]
    found = [_read({**settings, "slot.name": slot}, count, server) for slot, count in given["slots"].items()]
    result.write_text(json.dumps([asdict(one) for one in found]))


def server_cpu_seconds(pid: int) -> float:
    """All CPU time of a server so far, including its ended processes: PostgreSQL waits for them."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        # Processes may end during the scan.
        with suppress(OSError):
            fields = file.read_text().rpartition(")")[2].split()
            if pid in (int(file.parent.name), int(fields[1])):
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _read(settings: dict[str, str], wanted: int, server: int) -> PeerStats:
    java = import_module("pydbzengine.engine._jvm")
    properties = java.JProperties()
    for name, value in settings.items():
        properties.setProperty(name, value)
    tally = _Tally(wanted, server)
    consumer = _consumer(tally.take)
    engine = java.JDebeziumEngine.create(java.EngineFormat.JSON).using(properties).notifying(consumer).build()
    running = threading.Thread(target=engine.run, name="engine", daemon=True)
    running.start()
    try:
        _wait(tally, running)
    finally:
        # An engine that failed is closed already, and says so.
        with suppress(Exception):
            engine.close()
        running.join(60)
    return tally.stats()


def _wait(tally: _Tally, running: threading.Thread) -> None:
    seen, at = 0, time.monotonic()
    while not tally.reached.wait(0.2) and running.is_alive():
        if tally.changes != seen:
            seen, at = tally.changes, time.monotonic()
        if time.monotonic() - at > _STALLED_SECONDS:
            raise RuntimeError(f"Debezium sent nothing for {_STALLED_SECONDS:.0f} s after {seen} changes")


def _consumer(take: Callable[[Any], None]) -> Any:
    """Consumes whole batches. That of pydbzengine acknowledges each record from Python, which is slower; here Java does."""
    jpype = import_module("jpype")
    handles, proxies, kind, void = (
        jpype.JClass(f"java.lang.{name}")
        for name in ("invoke.MethodHandles", "invoke.MethodHandleProxies", "invoke.MethodType", "Void")
    )
    committing = jpype.JClass("io.debezium.engine.DebeziumEngine$RecordCommitter")
    mark = handles.publicLookup().findVirtual(
        committing, "markProcessed", kind.methodType(void.TYPE, jpype.JClass("java.lang.Object"))
    )
    accepting = jpype.JClass("java.util.function.Consumer")

    @jpype.JImplements("io.debezium.engine.DebeziumEngine$ChangeConsumer")
    class Consumer:
        @jpype.JOverride
        def handleBatch(self, records: Any, committer: Any) -> None:
            take(records)
            records.forEach(proxies.asInterfaceInstance(accepting, mark.bindTo(committer)))
            committer.markBatchFinished()

    return Consumer()


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(3)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    code = 1
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
        code = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        # Java's threads would keep the process alive.
        os._exit(code)
