"""Requested snapshots: stored in a file next to the pipeline's lock, for the current run or the next one."""

import os
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

import msgspec


class Requests:
    """The tables of one source to snapshot again, by their spelled names, each with an id of its request."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def ask(self, tables: Iterable[str]) -> None:
        """Requests tables; one that is already requested is snapshotted once more."""
        asked = {table: uuid4().hex for table in tables}
        if asked:
            self._write(self.pending() | asked)

    def pending(self) -> dict[str, str]:
        """The open requests."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, str])
        except (FileNotFoundError, msgspec.DecodeError):
            return {}

    def answer(self, taken: dict[str, str]) -> None:
        """Removes requests that are fulfilled; those made in the meantime stay."""
        known = self.pending()
        left = {table: mark for table, mark in known.items() if taken.get(table) != mark}
        if left != known:
            self._write(left)

    def _write(self, tables: dict[str, str]) -> None:
        if not tables:
            self._file.unlink(missing_ok=True)
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        temporary.write_bytes(msgspec.json.encode(tables))
        os.replace(temporary, self._file)
