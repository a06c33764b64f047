"""A pipeline to use from Python: `Pipeline.load("shop.yaml").run(once=True)`."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from changeling.iceberg.lock import Lock, held
from changeling.model.errors import ChangelingError
from changeling.model.extras import naming_extras
from changeling.model.table import TableName
from changeling.pipelines import loading
from changeling.pipelines.lakehouse import lake_of, lock_file, start_of_spark, tables_of
from changeling.pipelines.listener import Listener, Listeners
from changeling.pipelines.loading import LoadedPipeline
from changeling.pipelines.preflight import check_servers
from changeling.pipelines.run_log import RunLog
from changeling.pipelines.secrets import without_secrets
from changeling.pipelines.server_sources import check_has_database
from changeling.pipelines.time_travel import NOW, AskedState, FullLoad
from changeling.replicas.table_lookup import WantedTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from changeling.feeds.execution import Done as Executed
    from changeling.feeds.reading import FeedReader, FeedRecord, Gap, Start
    from changeling.feeds.verification import VerifiedFeed
    from changeling.iceberg.lake import Lake
    from changeling.log.maintenance import Done
    from changeling.pipelines.feeds import Feeds
    from changeling.pipelines.run_metrics import RunMetrics
    from changeling.pipelines.source_run import Totals
    from changeling.pipelines.verification import Verified
    from changeling.replicas.as_of import State
    from changeling.replicas.row_history import RowChange
    from changeling.replicas.shape import Shape


class Pipeline:
    """One pipeline file. Spark is started by the calls that need it, and stays."""

    def __init__(self, loaded: LoadedPipeline) -> None:
        self._loaded = loaded

    @staticmethod
    def load(path: str | Path) -> "Pipeline":
        """Reads and checks a pipeline file; raises `UsageError` that names the line."""
        return Pipeline(loading.load(path))

    @property
    def name(self) -> str:
        """The pipeline's name: its tables are `lake.<name>.…`."""
        return self._loaded.definition.name

    def run(
        self,
        once: bool = False,
        *,
        listener: Listener | None = None,
        stop: threading.Event | None = None,
        take_over: bool = False,
        resnapshot: bool = False,
        metrics: "RunMetrics | None" = None,
    ) -> "list[Totals]":
        """Runs the pipeline: new records into the log, the log into replicas, targets and feeds.

        It ends when everything that is available now is done (`once`), or when `stop` is set.

        `take_over` continues after a run on another machine that ended without releasing its lock. `resnapshot` snapshots all
        tables of PostgreSQL sources again, which is needed after a slot was lost. `metrics` counts what is done.
        """
        if resnapshot:
            check_has_database(self._loaded, "--resnapshot snapshots the tables of databases again")
        listeners = Listeners(RunLog(self.name), *filter(None, (listener, metrics)))

        def before_spark(lock: Lock) -> None:
            check_servers(self._loaded, lock, listeners, once=once)
            listeners.on_prepare(start_of_spark(self._loaded))

        with self._writing("run", take_over, before_spark) as (lake, lock):
            from changeling.pipelines.runner import Runner

            runner = Runner(self._loaded, lake, lock, listeners, stop or threading.Event(), resnapshot=resnapshot)
            if metrics is not None:
                metrics.watch(runner)
            return runner.run(once)

    def status(self) -> list[dict[str, Any]]:
        """The progress of each source; needs no Spark."""
        from changeling.pipelines.status import status

        with self._redacted():
            return status(self._loaded)

    def rejects(self, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """The records that were rejected, oldest first; needs no Spark."""
        from changeling.log import log_tables

        with self._redacted():
            rows = tables_of(self._loaded).rows(log_tables.REJECTS).sort_by("ingested_at")
        for batch in rows.slice(0, limit).to_batches():
            yield from batch.to_pylist()

    def history(self, table: str, key: str, *, source: str | None = None) -> "list[RowChange]":
        """The history of one row, oldest first; the key is a JSON object. Needs no Spark."""
        from changeling.log import log_tables
        from changeling.pipelines.states import no_log
        from changeling.replicas.row_history import life

        with self._redacted():
            tables = tables_of(self._loaded)
            if tables.load(log_tables.CHANGES.name) is None:
                raise no_log(self._loaded)
            return list(life(tables, WantedTable(TableName.parse(table), source), key))

    def changes(self, table: str, last: int = 100) -> "pa.Table":
        """The last changes of a table in its log, oldest first, as `changeling.encode` takes them. Needs no Spark."""
        from changeling.log.log_reader import last_changes

        with self._redacted():
            return last_changes(tables_of(self._loaded), TableName.parse(table), last)

    def replica(
        self,
        table: str,
        as_of: str | datetime | None = None,
        *,
        source: str | None = None,
        as_of_transaction: str | int | None = None,
        point: int | None = None,
        **full_load: Unpack[FullLoad],
    ) -> "DataFrame":
        """The rows of a table on Spark: now, as of a time (RFC 3339 with an offset), after a transaction, or at a point.

        With `base=`, a table or a file of a full load: its rows with the log's changes on top, strictly `before=` a time.
        `source` selects the table where several sources have one of that name.
        """
        return self.state(table, AskedState(as_of, as_of_transaction, point, **full_load), source=source).rows

    def state(self, table: str, asked: AskedState = NOW, *, source: str | None = None) -> "State[DataFrame]":
        """As `replica`, with the types of the columns."""
        from changeling.pipelines.states import on_spark

        with self._redacted():
            return on_spark(self._loaded, asked, WantedTable(TableName.parse(table), source))

    def rows(
        self,
        table: str,
        as_of: str | datetime | None = None,
        *,
        source: str | None = None,
        as_of_transaction: str | int | None = None,
        point: int | None = None,
    ) -> "pa.Table":
        """As `replica`, as a table of Arrow; Spark is started only where a few hundred megabytes have to be read for it."""
        return self.read(table, AskedState(as_of, as_of_transaction, point), source=source).rows

    def read(
        self,
        table: str,
        asked: AskedState = NOW,
        *,
        source: str | None = None,
        on_spark: Callable[[str], object] = lambda why: None,
    ) -> "State[pa.Table]":
        """As `rows`, with the types of the columns; calls `on_spark` with the reason before it starts Spark."""
        from changeling.pipelines.states import in_process

        with self._redacted():
            return in_process(self._loaded, asked, WantedTable(TableName.parse(table), source), on_spark)

    def rebuild(self, table: str, *, source: str | None = None, take_over: bool = False) -> int:
        """Rebuilds the replica of a table from the log, next to the current one, and swaps it in; returns the number of rows."""
        from changeling.pipelines.states import check_replica

        wanted = WantedTable(TableName.parse(table), source)
        with self._redacted():
            check_replica(self._loaded, wanted)
        with self._writing("replica --rebuild", take_over) as (lake, _):
            from changeling.log.change_log import Log
            from changeling.pipelines.log_follower import merge_of

            return merge_of(self._loaded, Log(lake)).rebuild(wanted)

    def current(self, table: str, *, source: str | None = None) -> "tuple[pa.Table, Shape] | None":
        """The rows of a table now, and their columns; None where it has no replica. Needs no Spark."""
        from changeling.replicas.replica_reader import current

        with self._redacted():
            return current(tables_of(self._loaded), self.name, WantedTable(TableName.parse(table), source))

    def feeds(self) -> "Feeds":
        """The changefeeds, to look at and to change; needs no Spark."""
        from changeling.pipelines.feeds import Feeds

        return Feeds(self._loaded)

    def sql(self, text: str, *, source: str | None = None) -> "list[Executed]":
        """Runs statements such as `ALTER TABLE t ADD CHANGEFEED f WITH (…)`, all or none; needs no Spark."""
        return self.feeds().sql(text, source=source)

    def read_feed(
        self,
        name: str,
        start: "Start" = None,
        *,
        consumer: str | None = None,
        follow: bool = False,
        limit: int | None = None,
        stop: threading.Event | None = None,
    ) -> "Iterator[FeedRecord]":
        """The records of a feed, by partition and offset; needs no Spark.

        They begin with `start`, an offset of each partition or a time of publishing (by default with the first that has not
        expired), or where the consumer was. With `follow`, they continue until `stop` is set.
        """
        yield from self.feed_reader(name, start, consumer=consumer).records(follow=follow, limit=limit, stop=stop)

    def feed_reader(
        self,
        name: str,
        start: "Start" = None,
        *,
        consumer: str | None = None,
        on_gap: "Callable[[Gap], object]" = lambda gap: None,
    ) -> "FeedReader":
        """As `read_feed`, in parts; `on_gap` is called with the records that were missed because they had expired."""
        from changeling.feeds.consumers import Consumers
        from changeling.feeds.reading import FeedReader
        from changeling.feeds.topic import Topic
        from changeling.pipelines.feed_sync import definitions_of

        with self._redacted():
            tables = tables_of(self._loaded)
            topic = Topic(tables, self.name, definitions_of(self._loaded).get(name))
            return FeedReader(topic, start, Consumers(tables), consumer, on_gap)

    def verify_feed(self, name: str) -> "VerifiedFeed":
        """Checks the records of a feed: order, repetitions, barriers, and the table that they make; needs no Spark."""
        from changeling.feeds.verification import verify_topic
        from changeling.pipelines.feed_sync import definitions_of

        with self._redacted():
            return verify_topic(tables_of(self._loaded), self.name, definitions_of(self._loaded).get(name))

    def verify(self, tables: Sequence[str] = (), *, most: int = 20) -> "Iterator[Verified]":
        """Compares replicas with the tables of their database, row for row, at one position of its log; all where none is named.

        If no run is active, the log is brought up to date first. Up to `most` differing rows are returned for each table.
        """
        from changeling.pipelines.verification import verify

        with self._redacted():
            yield from verify(self._loaded, tables, most, self._run_to)

    def _run_to(self, source: str, position: int | None) -> None:
        """Brings the log up to date, one source only to a position of its server's log."""
        from changeling.pipelines.runner import Runner

        with self._writing("verify", take_over=False) as (lake, lock):
            stop_positions = {} if position is None else {source: position}
            Runner(self._loaded, lake, lock, Listener(), threading.Event()).run(
                once=True, stop_positions=stop_positions
            )

    def repair(self, found: "Sequence[Verified]") -> bool:
        """Snapshots the tables that differ again; returns whether that is done, or left to the active run."""
        from changeling.iceberg.lock import is_held
        from changeling.pipelines.snapshot_requests import request_repair

        with self._redacted():
            request_repair(self._loaded, found)
        if is_held(lock_file(self._loaded)):
            return False
        self.run(once=True)
        return True

    def snapshot(self, tables: Sequence[str]) -> list[str]:
        """Requests new snapshots of tables of PostgreSQL sources from the active run or the next one; returns their names."""
        from changeling.pipelines.snapshot_requests import request_snapshots

        with self._redacted():
            return request_snapshots(self._loaded, tables)

    def replay(self, *, take_over: bool = False) -> dict[str, tuple[int, int]]:
        """Reads the rejects again; returns for each source how many were accepted, and how many stay."""
        from changeling.log.change_log import Log
        from changeling.pipelines.replay import finish_replay, replay
        from changeling.pipelines.source_ingest import carrier_of, ingest_of, record_sources

        found = {}
        with self._writing("rejects --replay", take_over) as (lake, _):
            log = Log(lake)
            for source in record_sources(self._loaded):
                ingest, carrier = ingest_of(self._loaded, log, source), carrier_of(source)
                finish_replay(lake, ingest, carrier)
                if ingest.state.rejected:
                    outcome = replay(lake, ingest, carrier).outcome
                    found[source.name] = (outcome.read - outcome.rejected, outcome.rejected)
        return found

    def maintain(self) -> "list[Done]":
        """Compacts files, expires snapshots, drops what is past retention, and removes orphan files."""
        from changeling.pipelines.maintenance import maintain

        file = lock_file(self._loaded)
        with held(file.with_suffix(".maintain.lock"), self.name, "changeling maintain"), self._redacted():
            return maintain(self._loaded)

    def remove(self) -> list[str]:
        """Drops what the pipeline has on database servers, then its tables and replicas with all of their data.

        Returns the names of what was dropped. Raises `NotAllDropped` with the statements to run where something remains on a
        server that the user may not drop; everything else is dropped then.
        """
        from changeling.pipelines.maintenance import remove

        with held(lock_file(self._loaded), self.name, "changeling remove"), self._redacted():
            return remove(self._loaded)

    @contextmanager
    def _writing(
        self, doing: str, take_over: bool, before_spark: Callable[[Lock], None] = lambda lock: None
    ) -> "Iterator[tuple[Lake, Lock]]":
        """The pipeline's tables, locked for this process: no other one writes them, on this machine or any other."""
        file = lock_file(self._loaded)
        with self._redacted(), held(file, self.name, f"changeling {doing}") as lock, self._redacted(), naming_extras():
            before_spark(lock)
            from changeling.log import log_tables

            lake = lake_of(self._loaded)
            lake.create(log_tables.TABLES, log_tables.VERSION)
            lake.claim(lock.holder, log_tables.BATCHES, take_over)
            try:
                yield lake, lock
            finally:
                # Spark may have ended with the run; on this machine, the claim in the lake does not matter.
                with suppress(ChangelingError):
                    lake.release(log_tables.BATCHES)

    def _redacted(self) -> AbstractContextManager[None]:
        """Removes secrets from errors."""
        return without_secrets(self._loaded)
