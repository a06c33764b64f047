"""Starts Spark's JVM: says what is missing where there is no Java, and keeps one line of noise from the user."""

import os
import re
import shutil
import threading
from pathlib import Path

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from changeling.model.errors import ChangelingError

JAVA_NEEDED = 17
_HINT = "install one (Debian and Ubuntu: apt install openjdk-17-jre-headless) or let JAVA_HOME point to it"
# The JVM says these itself before any logging is set up: Spark asks for that module at every start, and users may set that
# variable for every Java program.
_NOISE = (b"WARNING: Using incubator modules: jdk.incubator.vector", b"Picked up JAVA_TOOL_OPTIONS: ")


def start(conf: SparkConf) -> JavaGateway:
    """A new JVM with these settings; raises `ChangelingError` where there is no Java, or one that is too old."""
    java = _java()
    if java is None:
        raise ChangelingError(f"Java {JAVA_NEEDED} or later is needed for Spark, and none was found: {_HINT}")
    version = _version(java)
    if version is not None and version < JAVA_NEEDED:
        raise ChangelingError(f"Java {JAVA_NEEDED} or later is needed for Spark, {java} is {version}: {_HINT}")
    heard, said = os.pipe()
    threading.Thread(target=_pass_on, args=(heard,), name="spark-stderr", daemon=True).start()
    try:
        return launch_gateway(conf, {"stderr": said})  # type: ignore[no-untyped-call]
    except PySparkException as error:
        raise ChangelingError(f"Spark's JVM ({java}) did not start: {error}") from error
    finally:
        os.close(said)


def _java() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    return Path(found) if found and Path(found).is_file() else None


def _version(java: Path) -> int | None:
    """The major version by the file that every Java since 9 has beside it: to run it would take a tenth of a second."""
    try:
        told = (java.resolve().parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', told, re.MULTILINE)
    return None if match is None else int(match[1])


def _pass_on(heard: int) -> None:
    with open(heard, "rb") as lines:
        for line in lines:
            if not line.startswith(_NOISE):
                os.write(2, line)
