"""The jars of a Kafka broker: fetched once with all that they need, and never seen half fetched."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark

from changeling.spark.jars import cache_folder, java_command

VERSION = "4.2.0"
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
_MODULE = f"""<ivy-module version="2.0">
  <info organisation="changeling" module="broker"/>
  <configurations><conf name="jar"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{VERSION}" conf="jar->default"/>
  </dependencies>
</ivy-module>
"""


def broker_jars() -> Path:
    """The folder of the jars; raises `RuntimeError` with Ivy's words where they cannot be had."""
    folder = cache_folder() / f"kafka-broker-{VERSION}"
    if not folder.exists():
        _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as room:
        work = Path(room)
        settings, module, made = work / "settings.xml", work / "ivy.xml", work / "jars"
        settings.write_text(_SETTINGS.format(cache=work / "ivy"))
        module.write_text(_MODULE)
        ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
        pattern = str(made / "[artifact]-[revision].[ext]")
        done = subprocess.run(
            [java_command(), "-jar", str(ivy), "-settings", str(settings), "-ivy", str(module), "-retrieve", pattern],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not (made / f"kafka_2.13-{VERSION}.jar").exists():
            told = (done.stdout + done.stderr).strip().splitlines()[-5:]
            raise RuntimeError("could not fetch the jars of the broker; Ivy said:\n  " + "\n  ".join(told))
        try:
            made.rename(folder)
        except OSError:
            # Another process was quicker: what it fetched is as good.
            if not folder.exists():
                raise
            shutil.rmtree(made)
