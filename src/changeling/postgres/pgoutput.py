"""Decodes messages of pgoutput, PostgreSQL's own output plugin, into changes, a chunk at a time."""

import base64
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa

from changeling.model.errors import ChangelingError
from changeling.model.json_text import quote
from changeling.model.operation import Operation
from changeling.postgres.change_batch import ReadChanges, changes_batch, named
from changeling.postgres.frames import Chunk, Frames, cut, logical_message, parts_of
from changeling.postgres.relation_messages import Description, Descriptions
from changeling.postgres.row_images import RowImages
from changeling.postgres.table_versions import Resolve, Rules, Versions
from changeling.postgres.transactions import (
    COMMIT,
    DELETE,
    INSERT,
    MESSAGE,
    TRUNCATE,
    UPDATE,
    PlacedChanges,
    Transactions,
)
from changeling.postgres.tuples import numbers

_OPERATIONS = {
    INSERT: Operation.INSERT,
    UPDATE: Operation.UPDATE,
    DELETE: Operation.DELETE,
    TRUNCATE: Operation.TRUNCATE,
    MESSAGE: Operation.MESSAGE,
    COMMIT: Operation.COMMIT,
}
_OPERATION_NAMES = tuple(operation.value for operation in _OPERATIONS.values())
_OPERATION_NUMBERS = np.zeros(256, np.int8)
_OPERATION_NUMBERS[list(_OPERATIONS)] = np.arange(len(_OPERATIONS))
_TRUNCATED = (None, '{"cascade":true}', '{"restart_identity":true}', '{"cascade":true,"restart_identity":true}')

_BYTES_AT_ONCE = 64 * 1024 * 1024


class PgOutput:
    """Decodes one stream of pgoutput: protocol 1 or 2, text values, no streaming of open transactions.

    `resolve` completes each description of a table in the stream from the catalog. Only transactions whose commit LSN is among
    `commits` are emitted. `slot` is the name in the origins of changes.
    """

    def __init__(
        self, source: str, database: str, resolve: Resolve, *, slot: str, commits: range, rules: Rules | None = None
    ) -> None:
        self._source, self._slot = source, slot
        self._versions = Versions(database, resolve, rules)
        self._descriptions = Descriptions()
        self._transactions = Transactions(commits.start, commits.stop)

    @property
    def described(self) -> list[Description]:
        """The tables and partitions that the stream has described so far."""
        return self._descriptions.found()

    def decode(self, chunk: Chunk, header: int = 0) -> pa.RecordBatch:
        """The changes of the next messages, in layout `change_batch.CHANGES` and in the order of the stream.

        Each message may have a header of `header` bytes, which is skipped. Raises `ChangelingError` where messages are
        not valid pgoutput; the stream then has to be read from the start again.
        """
        frames = cut(chunk, header)
        self._versions.learn(frames)
        placed = self._transactions.place(frames)
        self._descriptions.learn(frames)
        letters = frames.letters[placed.messages]
        tables = self._tables(frames, placed, letters)
        rows = RowImages(len(letters))
        for changes in self._alike(tables, letters):
            self._read(rows, frames, changes, placed.messages[changes], tables[changes])
        operations = named(_OPERATION_NAMES, _OPERATION_NUMBERS[letters])
        found = ReadChanges(placed, operations, tables, self._versions.tables, rows, _meta(frames, placed, letters))
        return changes_batch(self._source, self._slot, found)

    def batches(self, chunk: Chunk, header: int = 0) -> Iterator[pa.RecordBatch]:
        """The same in batches of limited size; batches without a change are omitted."""
        for part in parts_of(chunk, _BYTES_AT_ONCE):
            batch = self.decode(part, header)
            if batch.num_rows:
                yield batch

    def _tables(self, frames: Frames, placed: PlacedChanges, letters: np.ndarray) -> np.ndarray:
        """The version of each change's table, or -1."""
        found = np.full(len(letters), -1, np.int64)
        truncates = letters == TRUNCATE
        of_tables = truncates | _is_row(letters)
        # The oid of the table follows the letter; a truncate has several, after its flags.
        places = frames.starts[placed.messages] + np.where(truncates, 6 + 4 * placed.inner, 1)
        oids = numbers(frames.data, places[of_tables], ">u4")
        found[of_tables] = self._versions.at(oids, placed.messages[of_tables])
        return found

    def _alike(self, tables: np.ndarray, letters: np.ndarray) -> Iterator[np.ndarray]:
        """The row changes, grouped by the shape of their tables."""
        rows = np.flatnonzero(_is_row(letters))
        if not len(rows):
            return
        shapes = np.array(self._versions.shapes, np.int64)[tables[rows]]
        if (shapes == shapes[0]).all():
            yield rows
            return
        order = np.argsort(shapes, kind="stable")
        yield from np.split(rows[order], np.flatnonzero(np.diff(shapes[order])) + 1)

    def _read(
        self, rows: RowImages, frames: Frames, changes: np.ndarray, messages: np.ndarray, tables: np.ndarray
    ) -> None:
        """Reads changes whose tables are of one shape."""
        try:
            rows.add(frames, changes, messages, self._versions.tables[tables[0]])
        except ChangelingError:
            # Read each table alone, so that the error names the right one.
            for number in np.unique(tables):
                own = tables == number
                rows.add(frames, changes[own], messages[own], self._versions.tables[number])
            raise


def _is_row(letters: np.ndarray) -> np.ndarray:
    found: np.ndarray = (letters == INSERT) | (letters == UPDATE) | (letters == DELETE)
    return found


def _meta(frames: Frames, placed: PlacedChanges, letters: np.ndarray) -> pa.StringArray:
    """The `meta` of truncates and logical messages."""
    special = np.flatnonzero((letters == TRUNCATE) | (letters == MESSAGE))
    if not len(special):
        return pa.nulls(len(letters), pa.string())
    found: list[str | None] = [None] * len(letters)
    for change in special.tolist():
        message = int(placed.messages[change])
        if letters[change] == TRUNCATE:
            found[change] = _TRUNCATED[frames.data[frames.starts[message] + 5] & 3]
        else:
            found[change] = _logical(frames.body(message))
    return pa.array(found, pa.string())


def _logical(body: bytes) -> str:
    prefix, content = logical_message(body)
    meta = {"prefix": prefix, "content_base64": base64.b64encode(content).decode()}
    with suppress(UnicodeDecodeError):
        meta["content"] = content.decode()
    return quote(meta).decode()
