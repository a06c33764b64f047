"""States of a pipeline's tables: folded in this process where little has to be read, on Spark otherwise."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from changeling.iceberg.measured_scan import NeedsSpark
from changeling.iceberg.table_definition import StoredTables
from changeling.log import log_tables
from changeling.model.errors import UsageError
from changeling.pipelines.definition import PostgresSource
from changeling.pipelines.lakehouse import lake_of, tables_of
from changeling.pipelines.loading import LoadedPipeline
from changeling.pipelines.time_travel import AskedState
from changeling.replicas.arrow_states import ArrowStore, on_arrow
from changeling.replicas.as_of import State, States, StateStore
from changeling.replicas.gaps import UnknownOf, nothing_unknown
from changeling.replicas.replica_reader import replicas
from changeling.replicas.table_lookup import WantedTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Rows = TypeVar("Rows")


def in_process(
    loaded: LoadedPipeline, asked: AskedState, table: WantedTable, announce: Callable[[str], object]
) -> State[pa.Table]:
    """A state as a table of Arrow; calls `announce` with the reason before it starts Spark."""
    tables = tables_of(loaded)
    store = ArrowStore.of(tables, loaded.definition.name)
    if store is None:
        raise no_log(loaded)
    try:
        return asked.of(_states(loaded, store, tables), table)
    except NeedsSpark as reason:
        announce(str(reason))
    return on_arrow(on_spark(loaded, asked, table))


def on_spark(loaded: LoadedPipeline, asked: AskedState, table: WantedTable) -> "State[DataFrame]":
    """A state as a frame of Spark."""
    from changeling.log.change_log import Log
    from changeling.replicas.spark_states import SparkStore
    from changeling.spark.errors import translated_errors

    with translated_errors():
        lake = lake_of(loaded)
        if not lake.has(log_tables.CHANGES):
            raise no_log(loaded)
        return asked.of(_states(loaded, SparkStore(Log(lake)), lake), table)


def check_replica(loaded: LoadedPipeline, table: WantedTable) -> None:
    """Raises `UsageError` where the table has no replica, before Spark is started for it."""
    known = [(one.identity.source, one.identity.table) for one in replicas(tables_of(loaded), loaded.definition.name)]
    if table.among(known) is None:
        raise UsageError(f"there is no replica of {table}; {table.nearest(one for _, one in known)}")


def _states(loaded: LoadedPipeline, store: StateStore[Rows], tables: StoredTables) -> States[Rows]:
    return States(store, loaded.policy, _unknown(loaded, tables))


def _unknown(loaded: LoadedPipeline, tables: StoredTables) -> UnknownOf:
    """The ranges in which tables are unknown: only captured ones have some, and the driver of their database loads slowly."""
    if not any(isinstance(source, PostgresSource) for source in loaded.definition.sources):
        return nothing_unknown
    from changeling.pipelines.capture_gaps import unknown_of

    return unknown_of(loaded, tables)


def no_log(loaded: LoadedPipeline) -> UsageError:
    """The error of those who read a log that does not exist."""
    return UsageError(f"pipeline {loaded.definition.name} has no log yet: `changeling run` creates it")
