"""Commits of rows, of a table or within a transaction: data files and deletion vectors together, or not at all."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from changeling.iceberg.data_files import DataFile, data_file_from_json
from changeling.iceberg.deletion_vectors import Vector
from changeling.iceberg.parquet_files import WrittenFile


class RowDelta(msgspec.Struct, frozen=True):
    """A change of a table: files of new rows, and the data files of which rows are deleted."""

    added: list[WrittenFile] = []
    deleted: list[tuple[DataFile, Vector]] = []
    """Each data file as it was, with the vector that replaces the one it had."""


def commit(table: Any, jvm: Any, planned: int | None, delta: RowDelta, summary: Mapping[str, str]) -> list[DataFile]:
    """Commits a row delta, with these entries in the snapshot's summary; the files that were added, with their bounds.

    `planned` is the snapshot in which the rows were looked up. The commit is refused where others removed or added rows since:
    removed files, new files, new deletion vectors. Pure appends cannot conflict.
    """
    iceberg = jvm.org.apache.iceberg
    commit = table.newRowDelta()
    added = []
    for written in delta.added:
        made = registered(jvm, table, written)
        commit.addRows(made)
        added.append(data_file_from_json(iceberg.ContentFileParser.toJson(made, table.spec())))
    specs = table.specs()
    mapper = iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper()
    for file, vector in delta.deleted:
        spec = specs.get(file.spec)
        partition = None
        if file.json and spec.isPartitioned():
            partition = iceberg.ContentFileParser.fromJson(mapper.readTree(file.json), spec).partition()
        commit.addDeletes(_delete_file(iceberg, spec, partition, file.path, vector))
        if file.vector is not None:
            commit.removeDeletes(_delete_file(iceberg, spec, partition, file.path, file.vector))
    if planned is not None:
        commit.validateFromSnapshot(planned)
    if delta.deleted:
        commit.conflictDetectionFilter(iceberg.expressions.Expressions.alwaysTrue())
        commit.validateDataFilesExist(_texts(jvm, [file.path for file, _ in delta.deleted]))
        commit.validateDeletedFiles()
        commit.validateNoConflictingDataFiles()
        commit.validateNoConflictingDeleteFiles()
    _finish(commit, summary)
    return added


CommitFiles: TypeAlias = Callable[[Any, Any, Sequence[WrittenFile], Mapping[str, str]], None]
"""Commits files to a table, with entries in the snapshot's summary."""


def commit_added(table: Any, jvm: Any, files: Sequence[WrittenFile], summary: Mapping[str, str]) -> None:
    """Commits files of new rows."""
    commit = table.newAppend()
    for written in files:
        commit.appendFile(registered(jvm, table, written))
    _finish(commit, summary)


def commit_all(table: Any, jvm: Any, files: Sequence[WrittenFile], summary: Mapping[str, str]) -> None:
    """Commits files that replace all rows of the table."""
    commit = table.newOverwrite().overwriteByRowFilter(jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue())
    for written in files:
        commit.addFile(registered(jvm, table, written))
    _finish(commit, summary)


def _finish(commit: Any, summary: Mapping[str, str]) -> None:
    for name, value in summary.items():
        commit.set(name, value)
    commit.commit()


def registered(jvm: Any, table: Any, written: WrittenFile, partition: str | None = None) -> Any:
    """A written file as a data file of a table that Iceberg's library has loaded, with its metrics."""
    iceberg = jvm.org.apache.iceberg
    file = table.io().newInputFile(written.path)
    metrics = _metrics(jvm, file, written.path, iceberg.MetricsConfig.forTable(table))
    made = iceberg.DataFiles.builder(table.spec()).withInputFile(file).withFormat("parquet").withMetrics(metrics)
    return (made if partition is None else made.withPartitionPath(partition)).build()


def _metrics(jvm: Any, file: Any, path: str, config: Any) -> Any:
    iceberg = jvm.org.apache.iceberg
    if "://" in path:
        return iceberg.parquet.ParquetUtil.fileMetrics(file, config)
    # The same for a file that Hadoop reads, with its configuration: `fileMetrics` parses one from XML each time, for 13 of 15 ms.
    footer = iceberg.shaded.org.apache.parquet.hadoop.ParquetFileReader.readFooter(file.getConf(), file.getPath())
    return iceberg.parquet.ParquetUtil.footerMetrics(footer, jvm.java.util.stream.Stream.empty(), config)


def _delete_file(iceberg: Any, spec: Any, partition: Any, data_file: str, vector: Vector) -> Any:
    made = iceberg.FileMetadata.deleteFileBuilder(spec).ofPositionDeletes().withFormat(iceberg.FileFormat.PUFFIN)
    if partition is not None:
        made = made.withPartition(partition)
    return (
        made.withPath(vector.path)
        .withFileSizeInBytes(vector.file_size)
        .withReferencedDataFile(data_file)
        .withContentOffset(vector.offset)
        .withContentSizeInBytes(vector.size)
        .withRecordCount(vector.count)
        .build()
    )


def _texts(jvm: Any, values: Sequence[str]) -> Any:
    found = jvm.java.util.ArrayList()
    for value in values:
        found.add(value)
    return found
