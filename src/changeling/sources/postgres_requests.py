"""Snapshots that somebody asks for: noted in a file beside the pipeline's lock, for the run that goes on or the next one."""

import os
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

import msgspec


class Requests:
    """The tables of one source that are to be taken anew, by their spelled names, each with a mark of its own."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def ask(self, tables: Iterable[str]) -> None:
        """Notes tables; one that was asked for already is taken anew once more."""
        asked = {table: uuid4().hex for table in tables}
        if asked:
            self._write(self.pending() | asked)

    def pending(self) -> dict[str, str]:
        """What is asked for."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, str])
        except (FileNotFoundError, msgspec.DecodeError):
            return {}

    def answer(self, taken: dict[str, str]) -> None:
        """Crosses out what is in the log now; what was asked for meanwhile stays."""
        known = self.pending()
        left = {table: mark for table, mark in known.items() if taken.get(table) != mark}
        if left != known:
            self._write(left)

    def _write(self, tables: dict[str, str]) -> None:
        if not tables:
            self._file.unlink(missing_ok=True)
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        beside = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        beside.write_bytes(msgspec.json.encode(tables))
        os.replace(beside, self._file)
