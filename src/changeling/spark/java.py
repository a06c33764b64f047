"""Which Java starts Spark. Looks at files alone: neither PySpark nor Java is started for it."""

import os
import re
import shutil
from pathlib import Path

from changeling.model.errors import ChangelingError

JAVA_NEEDED = 17
_HINT = "install one (Debian and Ubuntu: apt install openjdk-17-jre-headless) or let JAVA_HOME point to it"


def find_java() -> tuple[Path, int | None]:
    """The Java that Spark would be started with, and its version where it prints one; raises `ChangelingError` where none will do."""
    java = _java()
    if java is None:
        raise ChangelingError(f"Java {JAVA_NEEDED} or later is needed for Spark, and none was found: {_HINT}")
    version = _version(java)
    if version is not None and version < JAVA_NEEDED:
        raise ChangelingError(f"Java {JAVA_NEEDED} or later is needed for Spark, {java} is {version}: {_HINT}")
    return java, version


def _java() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    return Path(found) if found and Path(found).is_file() else None


def _version(java: Path) -> int | None:
    """The major version, from the `release` file that ships with every Java since 9: running Java would take a tenth of a second."""
    try:
        release = (java.resolve().parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return None if match is None else int(match[1])
