"""Signals to a run and to what it started, as a terminal, an init system and a system without memory send them."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.sql import SparkSession

from changeling.log import log_tables
from tests.log.lakes import SMALL, Shop, event
from tests.log.lakes import log_only as shop

EVENTS = 80_000
"""So many take a worker of Spark seconds."""
PATIENCE = 240.0


def family(process: int) -> dict[int, str]:
    """What a process started, and what that started, by their command lines."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                record = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[int(folder.name)] = (
                    int(record[1]),
                    record[0],
                    (folder / "cmdline").read_text().replace("\0", " "),
                )
            except OSError:
                continue
    found: dict[int, str] = {}
    while True:
        more = {
            number: line
            for number, (parent, state, line) in parents.items()
            if parent in {process, *found} and number not in found and state != "Z"
        }
        if not more:
            return found
        found |= more


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


class Running:
    """A run in a process group of its own."""

    def __init__(self, made: Shop) -> None:
        self._said = made.folder / "said.txt"
        with self._said.open("wb") as said:
            line = [sys.executable, "-m", "changeling", "run", str(made.file)]
            self.process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=said, text=True, process_group=0)

    @property
    def said(self) -> str:
        """What it printed, without what it did before it read, and without times."""
        lines = [re.sub(r"^\S+Z [A-Z]+ +shop: ", "", line) for line in self._said.read_text().splitlines(keepends=True)]
        return "".join(line for line in lines if line not in ("starting Spark\n", "opening the log\n"))

    @property
    def jvm(self) -> int:
        """Spark's JVM: the one that is no shell any more."""
        (found,) = [number for number, line in family(self.process.pid).items() if "org.apache.spark" in line]
        return found

    def is_reading(self) -> bool:
        """Whether a worker of Spark is at a batch."""
        daemons = [number for number, line in family(self.process.pid).items() if "pyspark.daemon" in line]
        return len(daemons) > 1

    def ended(self) -> int:
        return self.process.wait(PATIENCE)


@contextmanager
def reading(made: Shop) -> Iterator[Running]:
    """A run in the middle of a batch."""
    run = Running(made)
    started: set[int] = set()
    try:
        wait_for(lambda: run.is_reading() or run.process.poll() is not None, "no batch began")
        assert run.process.poll() is None, run.said
        assert "batch" not in run.said
        started = set(family(run.process.pid))
        yield run
        wait_for(lambda: not any(Path(f"/proc/{number}").exists() for number in started), "something is left behind")
    finally:
        for number in (run.process.pid, *started):
            if Path(f"/proc/{number}").exists():
                os.kill(number, signal.SIGKILL)
        run.process.wait()
        assert run.process.stdout is not None
        run.process.stdout.close()


def batches(made: Shop) -> list[int]:
    """How many changes of each batch are in the log."""
    found = made.table(log_tables.CHANGES).column("batch").value_counts().to_pylist()
    return [entry["counts"] for entry in sorted(found, key=lambda entry: int(entry["values"]))]


def test_signals_in_the_middle_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    source = {"name": "drop", "type": "files", "path": "in/*.json", "format": "xtdb", "batch_files": 1}
    made = shop(tmp_path, source, spark=SMALL)
    for name, start in (("a", 0), ("b", EVENTS)):
        made.write(f"{name}.json", *(event(number) for number in range(start, start + EVENTS)))

    with reading(made) as run:
        # Ctrl-C goes to all processes of the terminal's group.
        os.killpg(run.process.pid, signal.SIGINT)
        wait_for(lambda: "once more" in run.said, "the first Ctrl-C is not heard")
        os.killpg(run.process.pid, signal.SIGINT)
        assert run.ended() == 130
        assert run.said == (
            "stopping when this batch is in the log; once more stops at once\nchangeling: stopped at once\n"
        )
    assert batches(made) == []

    with reading(made) as run:
        # To the group, and to each process of the service as well, as systemd sends it.
        others = family(run.process.pid)
        os.killpg(run.process.pid, signal.SIGTERM)
        for number in others:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGTERM)
        assert run.ended() == 0, run.said
        first, *others_said = run.said.splitlines()
        assert first == "stopping when this batch is in the log; once more stops at once"
        assert re.match(rf"drop batch 1: {EVENTS:,} records, {EVENTS:,} changes", others_said[0])
    assert batches(made) == [EVENTS]

    with reading(made) as run:
        jvm = run.jvm
        os.kill(jvm, signal.SIGKILL)
        assert run.ended() == 1
        assert run.said == (
            f"changeling: Spark's JVM (process {jvm}) was killed by SIGKILL, which systems do that run out of memory: nothing "
            "more can be done without it. What is in the log stays; run the command again, and where memory is short give it "
            "less with spark.driver.memory, or more to the machine\n"
        )
    (record,) = [row for row in made.pipeline.status() if row["kind"] == "source"]
    assert record["last_error"].startswith(f"Spark's JVM (process {jvm}) was killed by SIGKILL")

    with reading(made) as run:
        # Nobody can notify the others; they find out.
        run.process.kill()
    assert batches(made) == [EVENTS]

    made.pipeline.run(once=True)
    assert batches(made) == [EVENTS, EVENTS]
    keys = made.table(log_tables.CHANGES).column("key")
    assert len(keys.unique()) == 2 * EVENTS
