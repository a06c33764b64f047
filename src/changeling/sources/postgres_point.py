"""Reads the tables of a PostgreSQL source at one point of its log, without moving its slot."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import monotonic, sleep

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from changeling.model import arrow_layouts
from changeling.model.position import encode
from changeling.model.table import TableName, TableSchema, schema_from_json
from changeling.postgres.catalog import CatalogTable
from changeling.postgres.connection import connect
from changeling.postgres.fingerprint import fingerprints
from changeling.postgres.published_table import PublishedTable
from changeling.postgres.slot import ExportedSnapshot
from changeling.sources import postgres_plan as plans
from changeling.sources.postgres_capture import Capture, LockedTables
from changeling.sources.postgres_known import KnownTables
from changeling.sources.postgres_plan import Snapshot
from changeling.sources.postgres_settings import CaptureSettings
from changeling.sources.postgres_snapshot_reading import SnapshotReader
from changeling.spark.adapter import run

_BLOCKS = 8192
_WAITING_SECONDS = 3.0
"""How long a session that waited to alter a table has to complete it."""


class TablesAtPoint:
    """A snapshot of all tables, open until it is closed; until then, they cannot be altered."""

    def __init__(self, settings: CaptureSettings) -> None:
        self._settings = settings
        self._capture = Capture(settings)
        self._point: ExportedSnapshot | None = None
        self._locked: LockedTables | None = None
        self._found: list[CatalogTable] = []

    def __enter__(self) -> "TablesAtPoint":
        try:
            self._server = self._capture.open()
            while self._locked is None:
                if self._point is not None:
                    self._point.close()
                self._point = self._capture.export_snapshot(for_reading=True)
                self._found = self._capture.found
                self._locked = self._capture.lock_tables(self._point, self._found)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._point is not None:
            self._point.close()
        self._capture.close()

    @property
    def position(self) -> str:
        """The tables contain every change before this position, and none from there on."""
        assert self._point is not None
        return encode(self._point.lsn)

    @property
    def lsn(self) -> int:
        """The LSN in the server's log."""
        assert self._point is not None
        return self._point.lsn

    def tables(self) -> list[TableName]:
        """The tables that are captured."""
        return [one.table for one in self._found]

    def outdates(self, known: KnownTables, table: TableName) -> bool:
        """Whether a table was altered since its snapshot in the log, so that it will be snapshotted again."""
        assert self._locked is not None
        found = [one for one in self._found if one.table == table]
        return any(True for _ in known.outdated(found, self._locked.prints))

    def were_altered(self) -> bool:
        """Whether tables have changed since they were locked; a session that waited to alter one does so once they are unlocked."""
        end = monotonic() + _WAITING_SECONDS
        while self._locked is not None:
            with connect(self._settings.url) as connection:
                now = fingerprints(connection, self._found, self._settings.publications)
            if now != self._locked.prints:
                return True
            if monotonic() > end:
                break
            sleep(0.2)
        return False

    def schema(self, table: TableName) -> TableSchema:
        """The columns that are captured of a table."""
        assert self._locked is not None
        rules = self._capture.tables().rules_of(table.schema or "", table.name)
        return schema_from_json(PublishedTable(self._locked.relations[table.spelled()], rules).schema_text)

    def rows(self, spark: SparkSession, table: TableName, schema_id: int | None) -> DataFrame:
        """The rows of a table, as `read` changes."""
        assert self._locked is not None
        assert self._point is not None
        parts = tuple(plans.parts_of(table, self._locked.leaves[table], _BLOCKS))
        plan = Snapshot(self._server.system, self._point.lsn, parts, self._point.lsn, self._locked.time, {})
        reader = SnapshotReader(self._capture.tables(), plan, self._point.snapshot, self._locked.relations)
        return run(
            spark.range(0, len(parts), 1, max(1, len(parts))), _Changes(reader, schema_id), arrow_layouts.CHANGES
        )


@dataclass(frozen=True)
class _Changes:
    """Changes without rejects, with the id of their schema."""

    reader: SnapshotReader
    schema_id: int | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for changes, _ in self.reader(batches):
            columns = {name: changes.column(name) for name in arrow_layouts.CHANGES.names}
            columns["schema_id"] = pa.repeat(pa.scalar(self.schema_id, pa.int64()), changes.num_rows)
            columns["schema"] = pa.nulls(changes.num_rows, pa.string())
            yield pa.record_batch([columns[name] for name in arrow_layouts.CHANGES.names], schema=arrow_layouts.CHANGES)
