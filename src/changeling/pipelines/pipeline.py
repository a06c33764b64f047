"""A pipeline to use from Python: `Pipeline.load("shop.yaml").run(once=True)`."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from changeling.log import layout
from changeling.log.lock import Lock, held
from changeling.model import times
from changeling.model.errors import ChangelingError, Rejected, UsageError
from changeling.model.table import TableName
from changeling.pipelines import loading
from changeling.pipelines.lakehouse import lake_of, lock_file, tables_of
from changeling.pipelines.loading import Loaded
from changeling.pipelines.quiet import Quiet

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from changeling.log.lake import Lake
    from changeling.log.upkeep import Done
    from changeling.pipelines.running import Listener, Totals
    from changeling.replicas.history import Moment
    from changeling.replicas.shape import Shape
    from changeling.pipelines.verifying import Verified
    from changeling.replicas.states import State


def moment_of(text: "str | datetime") -> int:
    """The nanoseconds of a moment; raises `UsageError` where it has no offset or is none."""
    if isinstance(text, datetime):
        text = text.isoformat()
    try:
        nanos, has_offset = times.parse(text)
    except Rejected as error:
        raise UsageError(f"--as-of {error}") from None
    if not has_offset:
        whole = text if len(text) > len("2024-01-01") else f"{text}T00:00:00"
        raise UsageError(f"--as-of {text}: write the offset as well, as in {whole}Z")
    return nanos


class Pipeline:
    """One pipeline file. Spark is started by the calls that need it, and stays."""

    def __init__(self, loaded: Loaded) -> None:
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
        listener: "Listener | None" = None,
        stop: threading.Event | None = None,
        take_over: bool = False,
        resnapshot: bool = False,
    ) -> "list[Totals]":
        """Brings what is new into the log: all that is there now (`once`), or for ever, until `stop` is set.

        `take_over` goes on where a run on another machine ended without a word. `resnapshot` takes all tables of PostgreSQL
        sources anew, which is the way on where a slot was lost.
        """
        from changeling.pipelines.running import Runner

        with self._writing("run", take_over) as (lake, lock):
            runner = Runner(
                self._loaded, lake, lock, listener or Quiet(), stop or threading.Event(), resnapshot=resnapshot
            )
            return runner.run(once)

    def status(self) -> list[dict[str, Any]]:
        """How far each source is; needs no Spark."""
        from changeling.pipelines.status import status

        with self._redacted():
            return status(self._loaded)

    def rejects(self, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """The records that were rejected, oldest first; needs no Spark."""
        with self._redacted():
            rows = tables_of(self._loaded).rows(layout.REJECTS).sort_by("ingested_at")
        for batch in rows.slice(0, limit).to_batches():
            yield from batch.to_pylist()

    def history(self, table: str, key: str) -> "list[Moment]":
        """The life of one row, oldest first; the key is a JSON object. Needs no Spark."""
        from changeling.replicas.history import life

        with self._redacted():
            return list(life(tables_of(self._loaded), TableName.parse(table), key))

    def changes(self, table: str, last: int = 100) -> "pa.Table":
        """The last changes of a table in its log, oldest first, as `changeling.encode` takes them. Needs no Spark."""
        from changeling.log.told_changes import last_changes

        with self._redacted():
            return last_changes(tables_of(self._loaded), TableName.parse(table), last)

    def replica(
        self,
        table: str,
        as_of: "str | datetime | None" = None,
        *,
        as_of_transaction: str | int | None = None,
        point: int | None = None,
        base: str | None = None,
        before: "str | datetime | None" = None,
    ) -> "DataFrame":
        """The rows of a table on Spark: now, as of a moment (RFC 3339 with an offset), after a transaction, or at a point.

        With `base`, a table or a file of a full load: the rows of it and the log's changes on top, strictly `before` a moment.
        """
        made = self.state(table, as_of, as_of_transaction=as_of_transaction, point=point, base=base, before=before)
        return made.rows

    def state(
        self,
        table: str,
        as_of: "str | datetime | None" = None,
        *,
        as_of_transaction: str | int | None = None,
        point: int | None = None,
        base: str | None = None,
        before: "str | datetime | None" = None,
    ) -> "State":
        """As `replica`, with the types of the columns."""
        from changeling.log.log import Log
        from changeling.pipelines.running import rules_of
        from changeling.replicas.states import States
        from changeling.spark.failures import in_one_sentence

        if sum(given is not None for given in (as_of, as_of_transaction, point, base)) > 1:
            raise UsageError("ask for a moment, a transaction, a point or a base: one of them")
        if before is not None and base is None:
            raise UsageError("`before` cuts the changes on top of a base: name one, or ask `as_of` a moment")
        name = TableName.parse(table)
        moment = None if as_of is None else moment_of(as_of)
        with self._redacted(), in_one_sentence():
            lake = lake_of(self._loaded)
            if not lake.exists():
                raise UsageError(f"pipeline {self.name} has no log yet: `changeling run` makes it")
            states = States(Log(lake), rules_of(self._loaded).policy)
            if base is not None:
                return states.from_base(name, base, None if before is None else moment_of(before))
            if moment is not None:
                return states.as_of(name, moment)
            if as_of_transaction is not None:
                return states.as_of_transaction(name, str(as_of_transaction))
            return states.now(name) if point is None else states.at_point(name, point)

    def rebuild(self, table: str, *, take_over: bool = False) -> int:
        """Makes the replica of a table again from the log, beside the one that is read, and swaps it in; tells its rows."""
        from changeling.log.log import Log
        from changeling.pipelines.running import merge_of

        with self._writing("replica --rebuild", take_over) as (lake, _):
            return merge_of(self._loaded, Log(lake)).rebuild(TableName.parse(table))

    def current(self, table: str) -> "tuple[pa.Table, Shape] | None":
        """The rows of a table now, and their columns; None where it has no replica. Needs no Spark."""
        from changeling.replicas.reading import current

        with self._redacted():
            return current(tables_of(self._loaded), self.name, TableName.parse(table))

    def verify(self, tables: Sequence[str] = (), *, most: int = 20) -> "Iterator[Verified]":
        """Compares replicas with the tables of their database, row for row, at one place of its log; all where none is named.

        Where no run goes on, the log is brought up to date first. `most` rows that differ are told of each table.
        """
        from changeling.pipelines.verifying import verify

        with self._redacted():
            yield from verify(self._loaded, tables, most, lambda: self.run(once=True))

    def repair(self, found: "Sequence[Verified]") -> bool:
        """Takes the tables that differ anew; whether that is done, or left to the run that goes on."""
        from changeling.log.lock import is_held
        from changeling.pipelines.verifying import ask_again

        with self._redacted():
            ask_again(self._loaded, found)
        if is_held(lock_file(self._loaded)):
            return False
        self.run(once=True)
        return True

    def snapshot(self, tables: Sequence[str]) -> list[str]:
        """Asks for tables of PostgreSQL sources to be taken anew, by the run that goes on or the next one; tells which."""
        from changeling.pipelines.verifying import ask_for

        with self._redacted():
            return ask_for(self._loaded, tables)

    def replay(self, *, take_over: bool = False) -> dict[str, tuple[int, int]]:
        """Reads the rejects again; tells for each source how many came into the log, and how many stay."""
        from changeling.log.log import Log
        from changeling.pipelines.replaying import replay, settle
        from changeling.pipelines.running import carrier_of, ingest_of, record_sources

        found = {}
        with self._writing("rejects --replay", take_over) as (lake, _):
            log = Log(lake)
            for source in record_sources(self._loaded):
                ingest, carrier = ingest_of(self._loaded, log, source), carrier_of(source)
                settle(lake, ingest, carrier)
                if ingest.state.rejected:
                    outcome = replay(lake, ingest, carrier).outcome
                    found[source.name] = (outcome.read - outcome.rejected, outcome.rejected)
        return found

    def maintain(self) -> "list[Done]":
        """Compacts, expires snapshots, drops what is past retention, removes files that no table has."""
        from changeling.log.upkeep import maintain
        from changeling.pipelines.definition import span_millis
        from changeling.replicas import upkeep

        lake = lake_of(self._loaded)
        file = lock_file(self._loaded)
        retention = span_millis(self._loaded.definition.retention)
        with held(file.with_suffix(".maintain.lock"), self.name, "changeling maintain"), self._redacted():
            if not lake.exists():
                return []
            kept = upkeep.merged_until(lake)
            replicas = upkeep.maintain(lake, timedelta(milliseconds=retention))
            return [*maintain(lake, retention, keep_changes=kept), *replicas]

    def remove(self) -> list[str]:
        """Drops what the pipeline has on database servers, then its tables and replicas with all that is in them.

        Tells the names of what was dropped.
        """
        from changeling.pipelines.capturing import capture_settings, postgres_sources
        from changeling.sources.postgres_capture import Capture

        with held(lock_file(self._loaded), self.name, "changeling remove"), self._redacted():
            dropped = []
            for source in postgres_sources(self._loaded):
                dropped += Capture(capture_settings(self._loaded, source)).remove()
            lake = lake_of(self._loaded)
            return [*dropped, *lake.beside(f"{self.name}_replica").remove(), *lake.remove()]

    @contextmanager
    def _writing(self, doing: str, take_over: bool) -> "Iterator[tuple[Lake, Lock]]":
        """The pipeline's tables, for the one process that writes them: no other on this machine, nor on any other."""
        if missing := self._loaded.definition.unsupported():
            raise UsageError(self._loaded.redacted(f"{self._loaded.path.name}: {'; '.join(missing)}"))
        file = lock_file(self._loaded)
        with self._redacted(), held(file, self.name, f"changeling {doing}") as lock, self._redacted():
            lake = lake_of(self._loaded)
            lake.create()
            lake.claim(lock.holder, take_over)
            try:
                yield lake, lock
            finally:
                # What ends a run may have ended Spark as well; on this machine the note is of no consequence.
                with suppress(ChangelingError):
                    lake.let_go()

    @contextmanager
    def _redacted(self) -> Iterator[None]:
        """No error shows what came from the environment."""
        try:
            yield
        except ChangelingError as error:
            raise type(error)(self._loaded.redacted(str(error))) from None
        except OSError as error:
            told = ": ".join(str(part) for part in (error.filename, error.strerror or error) if part is not None)
            raise ChangelingError(self._loaded.redacted(told)) from None
