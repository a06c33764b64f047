"""The jars of a Kafka broker and of Kafka Connect: fetched once with all that they need, and never seen half fetched."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark

from changeling.spark.jars import cache_folder
from changeling.spark.java import find_java

VERSION = "4.2.0"
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
_DEBEZIUM = "3.3.1.Final"
_BROKER = (f"org.apache.kafka:kafka_2.13:{VERSION}",)
_CONNECT = (
    f"org.apache.kafka:connect-runtime:{VERSION}",
    f"org.apache.kafka:connect-file:{VERSION}",
    f"org.apache.kafka:connect-json:{VERSION}",
    f"io.debezium:debezium-connector-jdbc:{_DEBEZIUM}",
    # Without it, nothing says why a sink has failed.
    "org.slf4j:slf4j-simple:1.7.36",
)
_OTHER_DRIVERS = ("com.mysql", "org.mariadb.jdbc", "com.microsoft.sqlserver", "com.oracle.database.jdbc")
"""What Debezium's sink brings along for databases that are not PostgreSQL."""


def broker_jars() -> Path:
    """The folder of a broker's jars; raises `RuntimeError` with Ivy's words where they cannot be had."""
    return _folder(f"kafka-broker-{VERSION}", _BROKER)


def connect_jars() -> Path:
    """The same of Kafka Connect, with sinks into files and into PostgreSQL."""
    return _folder(f"kafka-connect-{VERSION}-debezium-{_DEBEZIUM}", _CONNECT)


def _folder(name: str, coordinates: tuple[str, ...]) -> Path:
    folder = cache_folder() / name
    if not folder.exists():
        _fetch(coordinates, folder)
    return folder


def _module(coordinates: tuple[str, ...]) -> str:
    parts = [coordinate.split(":") for coordinate in coordinates]
    wanted = [f'<dependency org="{org}" name="{name}" rev="{rev}" conf="jar->default"/>' for org, name, rev in parts]
    unwanted = [f'<exclude org="{org}"/>' for org in _OTHER_DRIVERS]
    return (
        '<ivy-module version="2.0"><info organisation="changeling" module="kafka"/>'
        '<configurations><conf name="jar"/></configurations>'
        f"<dependencies>{''.join(wanted + unwanted)}</dependencies></ivy-module>"
    )


def _fetch(coordinates: tuple[str, ...], folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as room:
        work = Path(room)
        settings, module, made = work / "settings.xml", work / "ivy.xml", work / "jars"
        settings.write_text(_SETTINGS.format(cache=work / "ivy"))
        module.write_text(_module(coordinates))
        ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
        pattern = str(made / "[artifact]-[revision].[ext]")
        done = subprocess.run(
            [
                str(find_java()[0]),
                "-jar",
                str(ivy),
                "-settings",
                str(settings),
                "-ivy",
                str(module),
                "-retrieve",
                pattern,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        files = [f"{name}-{version}.jar" for _, name, version in (one.split(":") for one in coordinates)]
        if done.returncode or not all((made / name).exists() for name in files):
            output = (done.stdout + done.stderr).strip().splitlines()[-5:]
            raise RuntimeError("could not fetch the jars of Kafka; Ivy said:\n  " + "\n  ".join(output))
        try:
            made.rename(folder)
        except OSError:
            # Another process was quicker: what it fetched is as good.
            if not folder.exists():
                raise
            shutil.rmtree(made)
