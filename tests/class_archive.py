"""Spark's classes as a JVM has them in memory, stored once: the JVMs that tests start take them from there.

Without it, each of them reads and verifies thousands of classes. An archive that does not fit is ignored by Java.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

from changeling.model.errors import ChangelingError
from changeling.spark.jars import cache_folder
from changeling.spark.java import find_java

_OPTIONS = "JAVA_TOOL_OPTIONS"
_MAKING = "import sys; from changeling.cli import main; main(['init']); sys.exit(main(['run', '--once']))"


def use() -> None:
    """Lets the JVMs that are started from now on use the archive, where there is one."""
    with suppress(ChangelingError):
        archive = _archive()
        # A worker has the options of the process that started it.
        if archive.exists() and str(archive) not in os.environ.get(_OPTIONS, ""):
            os.environ[_OPTIONS] = _with(f"-XX:SharedArchiveFile={archive}")


def make() -> None:
    """Makes the archive where there is none, and uses it. Where that fails, JVMs start without."""
    archive = _archive()
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        # Another worker may be making it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive)
    use()


def _make(archive: Path) -> None:
    made = archive.with_suffix(".part")
    environment = {**os.environ, _OPTIONS: _with(f"-XX:ArchiveClassesAtExit={made}")}
    call = [sys.executable, "-c", _MAKING]
    with TemporaryDirectory() as folder, suppress(subprocess.SubprocessError, OSError):
        # Ends when the JVM has ended, which has the same output.
        subprocess.run(call, cwd=folder, env=environment, capture_output=True, check=True, timeout=300)
        made.replace(archive)


def _archive() -> Path:
    """Archives belong to the Java and to the jars that they were made with."""
    java = find_java()[0].resolve()
    jars = sorted(path.name for path in (Path(pyspark.__file__).parent / "jars").iterdir())
    parts = [str(java), str(java.stat().st_mtime_ns), pyspark.__file__, *jars]
    return cache_folder() / "tests" / f"classes-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}.jsa"


def _with(option: str) -> str:
    # Java prints on standard output that an archive does not fit.
    return f"{os.environ.get(_OPTIONS, '')} {option} -Xlog:disable"
