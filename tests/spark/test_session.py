"""The session: quiet, on loopback, one at a time, and plain about a missing Java."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkConf
from pyspark.sql import SparkSession

import changeling.spark
from changeling.model.errors import ChangelingError
from changeling.spark import gateway
from changeling.spark.gateway import JavaNames


def test_an_active_session_is_used_again(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    assert before is not None
    again = changeling.spark.session(**{"spark.sql.shuffle.partitions": "3"})
    assert again.sparkContext is spark.sparkContext
    assert again.conf.get("spark.sql.shuffle.partitions") == "3"
    changeling.spark.session(**{"spark.sql.shuffle.partitions": before})


def test_defaults_hold_where_nothing_else_is_said(spark: SparkSession) -> None:
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.master"] == "local[1]"
    assert settings["spark.driver.host"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_local_files_are_created_with_their_permissions_by_no_process_of_their_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    java = JavaNames.of(spark.sparkContext)
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    files = java.org.apache.hadoop.fs.FileSystem.get(java.java.net.URI(tmp_path.as_uri()), settings)
    assert files.getClass().getName() == "changeling.LocalFiles"
    path = java.org.apache.hadoop.fs.Path(str(tmp_path / "made" / "by Hadoop"))
    files.create(path, False).close()
    assert (tmp_path / "made" / "by Hadoop").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o755
    files.setPermission(path, java.org.apache.hadoop.fs.permission.FsPermission("600"))
    assert (tmp_path / "made" / "by Hadoop").stat().st_mode & 0o777 == 0o600


@pytest.mark.services
def test_nothing_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
    code = "import changeling.spark as c; s = c.session(**{'spark.master': 'local[1]'}); s.range(3).count(); s.stop()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr == ""


def test_without_java_the_message_says_what_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ChangelingError, match="Java 17 or later is needed"):
        gateway.start(SparkConf(loadDefaults=False))


def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="11.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ChangelingError, match="bin/java is 11"):
        gateway.start(SparkConf(loadDefaults=False))


def test_importing_changeling_leaves_spark_alone() -> None:
    code = "import sys, changeling; sys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
