"""The tables of one namespace, through Spark: created, upgraded, appended to, read."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from changeling.iceberg.catalog import NAME, Catalog, check_place, prepare
from changeling.iceberg.conditions import EVERYTHING, Condition
from changeling.iceberg.lock import Holder, holder_of
from changeling.iceberg.parquet_files import Writer, WriteSpec, WrittenFile, numbered
from changeling.iceberg.planned_scan import PlannedTable
from changeling.iceberg.row_delta import registered
from changeling.iceberg.table_definition import TableDefinition
from changeling.model.errors import ChangelingError
from changeling.spark.adapter import spark_schema
from changeling.spark.errors import Conflict, translated_errors
from changeling.spark.gateway import JavaNames

Result = TypeVar("Result")
LAYOUT = "changeling.layout"
HOLDER = "changeling.holder"
PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)
PROPERTIES = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.parquet.compression-codec": "zstd",
    # Ingest and maintenance write at the same time: the later one retries.
    "commit.retry.num-retries": "20",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
}


class Size(NamedTuple):
    """Files of a table: with rows, and with what was deleted of them."""

    files: int
    deletes: int


class Lake:
    """One pipeline's namespace in the catalog `lake`."""

    def __init__(self, spark: SparkSession, catalog: Catalog, namespace: str) -> None:
        self.spark = spark.newSession()
        for name, value in catalog.spark.items():
            self.spark.conf.set(name, value)
        # Names are data: `Id` and `id` are two columns.
        self.spark.conf.set("spark.sql.caseSensitive", "true")
        # `${env:HOME}` in a name is not substituted.
        self.spark.conf.set("spark.sql.variable.substitute", "false")
        # A decimal becomes the text of all its digits, without an exponent.
        self.spark.conf.set("spark.sql.ansi.enabled", "true")
        if catalog.database is not None:
            prepare(catalog.database)
            check_place(catalog, namespace)
        self.namespace = namespace
        self.is_remote = "://" in catalog.spark.get(f"spark.sql.catalog.{NAME}.warehouse", "")
        self.jvm = jvm = JavaNames.of(self.spark.sparkContext)
        self.enter_thread()
        with translated_errors():
            # Calling the catalog directly takes a tenth of the time of a statement in Spark SQL.
            self._tables = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(self.spark._jsparkSession, NAME)
        self._identifiers = jvm.org.apache.iceberg.catalog.TableIdentifier
        self._json = jvm.org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper()
        self._namespace = self._named(namespace)

    def enter_thread(self, pool: str | None = None) -> None:
        """Makes the session that of the calling thread, whose Spark jobs share the cores fairly with those of other pools."""
        # Spark looks for catalogs in the session that is active in a thread, which may be another pipeline's.
        self.jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(self.spark._jsparkSession)
        if pool is not None:
            self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)

    def _named(self, namespace: str) -> Any:
        """A namespace as Iceberg's library has it."""
        gateway: Any = self.spark.sparkContext._gateway
        names = gateway.new_array(self.jvm.java.lang.String, 1)
        names[0] = namespace
        return self.jvm.org.apache.iceberg.catalog.Namespace.of(names)

    def name(self, table: TableDefinition) -> str:
        """The table's full name for SQL."""
        return f"{NAME}.`{self.namespace}`.{quoted(table.name)}"

    def in_namespace(self, namespace: str) -> "Lake":
        """Another namespace of the same catalog, in the same session."""
        made = copy(self)
        made.namespace, made._namespace = namespace, self._named(namespace)
        return made

    def names(self) -> list[str]:
        """The existing tables; none where the namespace does not exist."""
        with translated_errors():
            if not self._tables.namespaceExists(self._namespace):
                return []
            found = self._tables.listTables(self._namespace)
            return [found.get(place).name() for place in range(len(found))]

    def create(self, tables: Sequence[TableDefinition], version: int) -> None:
        """Creates the tables that are missing, and upgrades older ones to this layout; raises `ChangelingError` for newer ones."""
        with translated_errors():
            if not self._tables.namespaceExists(self._namespace):
                self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {NAME}.`{self.namespace}`")
            there = set(self.names())
            for table in tables:
                if table.name in there:
                    self._upgrade(table, version)
                else:
                    self._create(table, version)

    def has(self, table: TableDefinition) -> bool:
        """Whether a table exists."""
        return table.name in self.names()

    def _create(self, table: TableDefinition, version: int) -> None:
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in {**PROPERTIES, LAYOUT: version}.items())
        partitioned = "" if table.partition_by_day_of is None else f"PARTITIONED BY (days({table.partition_by_day_of}))"
        self.spark.sql(
            f"CREATE TABLE {self.name(table)} ({spark_schema(table.columns).toDDL()}) USING iceberg {partitioned} "
            f"TBLPROPERTIES ({properties})"
        )

    def _upgrade(self, table: TableDefinition, version: int) -> None:
        """An older layout lacks columns: they are added, and are null in what was written before."""
        iceberg_table = self.load(table)
        stored = int(iceberg_table.properties().get(LAYOUT) or 0)
        if stored > version:
            raise ChangelingError(
                f"{self.name(table)} has layout {stored}, this version of Changeling knows {version}: install a newer one"
            )
        if stored == version:
            return
        there = set(self.spark.table(self.name(table)).columns)
        for field in spark_schema(table.columns):
            if field.name not in there:
                self.spark.sql(
                    f"ALTER TABLE {self.name(table)} ADD COLUMN `{field.name}` {field.dataType.simpleString()}"
                )
        self.spark.sql(f"ALTER TABLE {self.name(table)} SET TBLPROPERTIES ('{LAYOUT}' = '{version}')")

    def load(self, table: TableDefinition) -> Any:
        """The table as Iceberg's own library has it, as it is now."""
        return self._tables.loadTable(self._identifiers.of(self._namespace, table.name))

    def entries(self, java_map: Any) -> dict[str, str]:
        """The entries of a Java map of texts, such as a summary or properties: in one call, not in one for each entry."""
        found: dict[str, str] = msgspec.json.decode(self._json.writeValueAsString(java_map))
        return found

    def write_spec(self, table: TableDefinition, moment: datetime) -> WriteSpec:
        """Where files with rows of that time are written."""
        with translated_errors():
            return self.write_spec_of(self.load(table), table, moment)

    def write_spec_of(self, iceberg_table: Any, table: TableDefinition, moment: datetime | None = None) -> WriteSpec:
        """The same for a loaded table; an unpartitioned table needs no time."""
        schema = msgspec.json.decode(self.jvm.org.apache.iceberg.SchemaParser.toJson(iceberg_table.schema()))
        partition = None if moment is None else _partition(table, moment)
        return WriteSpec(iceberg_table.location(), numbered(table, schema), table.sort, partition, table.without_bounds)

    def append(
        self,
        table: TableDefinition,
        files: Sequence[WrittenFile],
        moment: datetime,
        summary: Mapping[str, str] | None = None,
    ) -> None:
        """Commits files, all or none, with these entries in the snapshot's summary."""
        with translated_errors():
            iceberg_table = self.load(table)
            commit = iceberg_table.newAppend()
            for written in files:
                commit.appendFile(registered(self.jvm, iceberg_table, written, _partition(table, moment)))
            for name, value in (summary or {}).items():
                commit.set(name, value)
            commit.commit()

    def append_rows(
        self,
        table: TableDefinition,
        rows: list[dict[str, object]],
        moment: datetime,
        summary: Mapping[str, str] | None = None,
    ) -> None:
        """Commits a few rows that the driver has, with these entries in the snapshot's summary."""
        writer = Writer(self.write_spec(table, moment))
        writer.write(pa.RecordBatch.from_pylist(rows, table.columns))
        self.append(table, writer.close(), moment, summary)

    def summaries(self, table: TableDefinition, tag: str | None = None) -> Iterator[dict[str, str]]:
        """The summaries of snapshots from the newest back, as far as they are not expired, and of the tagged one."""
        with translated_errors():
            for _, summary in self._snapshots(table, tag):
                yield summary

    def _snapshots(self, table: TableDefinition, tag: str | None) -> Iterator[tuple[int, dict[str, str]]]:
        iceberg_table = self.load(table)
        snapshot = iceberg_table.currentSnapshot()
        while snapshot is not None:
            yield snapshot.snapshotId(), self.entries(snapshot.summary())
            parent = snapshot.parentId()
            snapshot = None if parent is None else iceberg_table.snapshot(parent)
        tagged = None if tag is None else iceberg_table.refs().get(tag)
        if tagged is not None:
            yield tagged.snapshotId(), self.entries(iceberg_table.snapshot(tagged.snapshotId()).summary())

    def tag_newest(self, table: TableDefinition, tag: str, entry: str) -> None:
        """Tags the newest snapshot whose summary has an entry."""

        def set_tag() -> None:
            found = next((number for number, summary in self._snapshots(table, tag) if entry in summary), None)
            if found is not None:
                self.spark.sql(f"ALTER TABLE {self.name(table)} CREATE OR REPLACE TAG `{tag}` AS OF VERSION {found}")

        # Iceberg retries commits of rows, and none of tags.
        self.repeated(set_tag)

    def tags(self, table: TableDefinition) -> dict[str, datetime]:
        """The tags of a table, each with the time of its snapshot."""
        with translated_errors():
            iceberg_table = self.load(table)
            refs = {str(name): ref.snapshotId() for name, ref in dict(iceberg_table.refs()).items() if ref.isTag()}
            return {
                name: datetime.fromtimestamp(iceberg_table.snapshot(number).timestampMillis() / 1000, UTC)
                for name, number in refs.items()
            }

    def size(self, table: TableDefinition) -> Size:
        """How many files the table has."""
        with translated_errors():
            snapshot = self.load(table).currentSnapshot()
            summary = {} if snapshot is None else self.entries(snapshot.summary())
            return Size(int(summary.get("total-data-files", 0)), int(summary.get("total-delete-files", 0)))

    def expire(self, table: TableDefinition, before: datetime) -> int:
        """Expires snapshots older than a time, except the current one and those with a tag; returns how many."""
        with translated_errors():
            iceberg_table = self.load(table)
            there = len(list(iceberg_table.snapshots()))
            iceberg_table.expireSnapshots().expireOlderThan(int(before.timestamp() * 1000)).retainLast(1).commit()
            return max(0, there - len(list(self.load(table).snapshots())))

    def claim(self, holder: Holder, table: TableDefinition, take_over: bool = False) -> None:
        """Notes on a table who writes: other machines do not see the lock. Raises `ChangelingError` where one of them does.

        The catalog takes the note only if nobody wrote another one meanwhile.
        """
        with translated_errors():
            iceberg_table = self.load(table)
            operations = iceberg_table.operations()
            base = operations.current()
            other = holder_of(base.properties().get(HOLDER))
            if other is not None and other.host != holder.host and not take_over:
                raise ChangelingError(
                    f"pipeline {self.namespace} is held by {other}: one writer at a time; stop it first, or continue with "
                    "--take-over where it is gone for certain"
                )
            entry = self.jvm.java.util.HashMap()
            entry.put(HOLDER, holder.to_text())
            metadata = self.jvm.org.apache.iceberg.TableMetadata.buildFrom(base).setProperties(entry).build()
            operations.commit(base, metadata)

    def release(self, table: TableDefinition) -> None:
        """Removes the note."""
        with translated_errors():
            self.load(table).updateProperties().remove(HOLDER).commit()

    def remove(self) -> list[str]:
        """Drops the tables with their files; returns their names."""
        with translated_errors():
            there = self.names()
            for name in there:
                self.spark.sql(f"DROP TABLE {NAME}.`{self.namespace}`.{quoted(name)} PURGE")
            if there:
                self.spark.sql(f"DROP NAMESPACE {NAME}.`{self.namespace}`")
            return there

    def rename(self, table: TableDefinition, to: TableDefinition) -> None:
        """Gives a table another name; its files stay where they are."""
        self.retried(f"ALTER TABLE {self.name(table)} RENAME TO `{self.namespace}`.{quoted(to.name)}")

    def frame(self, table: TableDefinition) -> DataFrame:
        """The table as a frame."""
        return self.spark.table(self.name(table))

    def rows(self, table: TableDefinition, where: Condition = EVERYTHING) -> pa.Table:
        """The rows of a small table, or those that meet a condition."""
        with translated_errors():
            return PlannedTable(self.load(table), self.jvm, table, unbounded=True).rows(where)

    def planned(self, table: TableDefinition) -> PlannedTable:
        """The table as it is now, to be read in this process up to a size limit."""
        return PlannedTable(self.load(table), self.jvm, table)

    def retried(self, text: str) -> list[Any]:
        """Runs a statement that may conflict with other writers, such as maintenance of a table: retries a few times."""
        return self.repeated(lambda: self.spark.sql(text).collect())

    def repeated(self, action: Callable[[], Result]) -> Result:
        """Retries an action that may conflict with other writers a few times."""
        for pause in PAUSES:
            try:
                with translated_errors():
                    return action()
            except Conflict:
                time.sleep(pause)
        with translated_errors():
            return action()

    def sql(self, text: str) -> DataFrame:
        """Runs a statement in this pipeline's session."""
        with translated_errors():
            return self.spark.sql(text)


def quoted(name: str) -> str:
    """A name for SQL, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _partition(table: TableDefinition, moment: datetime) -> str | None:
    return None if table.partition_by_day_of is None else f"{table.partition_by_day_of}_day={moment:%Y-%m-%d}"
