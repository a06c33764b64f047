import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

import changeling.spark
from changeling.iceberg.lake import Lake
from changeling.iceberg.table_definition import TableDefinition
from tests import class_archive
from tests.balance import SERVICES, file_seconds
from tests.log.prepared import Prepared
from tests.soaking import covered
from tests.time_limit import pytest_addoption, pytest_runtest_call, pytest_runtest_setup, pytest_runtest_teardown

__all__ = ["pytest_addoption", "pytest_runtest_call", "pytest_runtest_setup", "pytest_runtest_teardown"]

# Machines are noisy: no test asserts a time.
settings.register_profile("tests", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", parent=settings.get_profile("tests"), max_examples=3_000)
settings.load_profile("tests")


# Every JVM that tests start, Spark's and the brokers', lives for seconds or minutes beside others on few cores: quick to
# start and light beats quick in the long run.
_QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -XX:ReservedCodeCacheSize=240m"
_given = os.environ.get("JAVA_TOOL_OPTIONS", "")
if _QUICK_START not in _given:
    os.environ["JAVA_TOOL_OPTIONS"] = f"{_QUICK_START} {_given}".strip()
class_archive.use()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    class_archive.make()
    started = changeling.spark.session(
        **{
            # One core a worker of the tests; what parallel tasks do is the subject of tests of their own.
            "spark.master": "local[1]",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.adaptive.enabled": "false",
            # Small, so that a few rows already come in several batches.
            "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        }
    )
    prepared = Prepared()

    def create(lake: Lake, tables: Sequence[TableDefinition], version: int) -> None:
        prepared.create(lake, tables, version)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Lake, "create", create)
        yield started
    prepared.remove()
    started.stop()


def pytest_configure(config: pytest.Config) -> None:
    """A run without services cannot start one: a test that does so without a fixture needs the mark `services`."""
    if "not services" not in config.option.markexpr:
        return
    os.environ["JAVA_HOME"] = "/tests marked services alone may start Java"
    from demo.embedded_postgres import EmbeddedPostgres
    from tests.brokers.broker import Broker

    def refused(*given: Any) -> None:
        pytest.fail("starts a server: mark it with `services`")

    EmbeddedPostgres.start = refused  # type: ignore[method-assign, assignment]
    Broker._start = refused  # type: ignore[method-assign, assignment]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs services, and what is generated; the files that take long come first, so that workers end together."""
    for item in items:
        if SERVICES.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker("services")
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("generated")
    seconds = file_seconds(items)
    items.sort(key=lambda item: (-seconds[item.path], str(item.path)))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.option.markexpr.startswith("soak"):
        terminalreporter.section("what was covered")
        for line in covered(terminalreporter.stats):
            terminalreporter.write_line(line)
