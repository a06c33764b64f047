"""The jars that Spark needs in addition to its own: resolved once into a cache by their pinned coordinates, then reused.

PySpark ships Ivy, which has a command line; starting sessions with `spark.jars.packages` instead would resolve them again at
every start, and print pages.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from changeling.model.errors import ChangelingError
from changeling.spark.java import find_java

ICEBERG = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)
KAFKA = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
S3 = ("org.apache.iceberg:iceberg-aws-bundle:1.12.0",)

_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


def cache_folder() -> Path:
    """Where jars are kept: `CHANGELING_CACHE`, else the user's cache folder."""
    chosen = os.environ.get("CHANGELING_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "changeling"


def resolve(coordinates: tuple[str, ...], folder: Path | None = None) -> list[Path]:
    """The files of these coordinates (`group:artifact:version`), fetched where they are missing.

    Raises `ChangelingError` where Java is missing or a jar cannot be fetched.
    """
    folder = folder or _jar_folder()
    if missing := missing_of(coordinates, folder):
        folder.mkdir(parents=True, exist_ok=True)
        _fetch(missing, folder)
    return [_file(coordinate, folder) for coordinate in coordinates]


def missing_of(coordinates: tuple[str, ...], folder: Path | None = None) -> list[str]:
    """Those of these coordinates that `resolve` would fetch."""
    return [one for one in coordinates if not _file(one, folder or _jar_folder()).exists()]


def _jar_folder() -> Path:
    return cache_folder() / "jars"


def _file(coordinate: str, folder: Path) -> Path:
    _, artifact, version = coordinate.split(":")
    return folder / f"{artifact}-{version}.jar"


def _fetch(coordinates: list[str], folder: Path) -> None:
    java, _ = find_java()
    with tempfile.TemporaryDirectory(dir=folder) as name:
        work = Path(name)
        settings, module = work / "settings.xml", work / "ivy.xml"
        settings.write_text(_SETTINGS.format(cache=work / "ivy"))
        module.write_text(_module(coordinates))
        pattern = str(work / "[artifact]-[revision].[ext]")
        command = [
            str(java),
            "-jar",
            str(_ivy()),
            "-settings",
            str(settings),
            "-ivy",
            str(module),
            "-retrieve",
            pattern,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        for coordinate in coordinates:
            target = _file(coordinate, folder)
            fetched = work / target.name
            if done.returncode or not fetched.exists():
                output = (done.stdout + done.stderr).strip().splitlines()[-5:]
                raise ChangelingError(
                    f"could not fetch {coordinate} (is the network there?); Ivy said:\n  " + "\n  ".join(output)
                )
            # Renamed into place: two processes that fetch at once both end with a complete file.
            fetched.replace(target)


def _module(coordinates: list[str]) -> str:
    rows = []
    for coordinate in coordinates:
        group, artifact, version = coordinate.split(":")
        rows.append(
            f'    <dependency org="{group}" name="{artifact}" rev="{version}" conf="jar->master" transitive="false"/>'
        )
    listed = "\n".join(rows)
    return (
        '<ivy-module version="2.0">\n  <info organisation="changeling" module="jars"/>\n'
        '  <configurations><conf name="jar"/></configurations>\n'
        f"  <dependencies>\n{listed}\n  </dependencies>\n</ivy-module>\n"
    )


def _ivy() -> Path:
    import pyspark

    found = sorted((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise ChangelingError("PySpark's own jars are not complete: there is no ivy jar; install pyspark again")
    return found[-1]
