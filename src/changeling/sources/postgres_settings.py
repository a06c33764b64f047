"""The settings of a PostgreSQL source, and the snapshots that are requested of it."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from changeling.postgres.column_rules import ColumnRules

if TYPE_CHECKING:
    from changeling.postgres.claim import Claim
    from changeling.postgres.readiness import WithoutIdentity


@dataclass(frozen=True)
class CaptureSettings:
    """The tables, the names on the server, and the rules for columns and rows."""

    name: str
    url: str = field(repr=False)
    tables: tuple[str, ...]
    slot: str
    publication: str
    batch_bytes: int = 256 * 1024 * 1024
    """About how many bytes of the log, or of tables, one batch reads."""
    without_identity: "WithoutIdentity" = "refuse"
    lag_alarm: int = 1024**3
    """How many bytes the server may retain for the slot before a warning is given."""
    rules: tuple[tuple[str, ColumnRules], ...] = ()
    """By table pattern; the first match applies."""
    filters: tuple[tuple[str, str], ...] = ()
    """Conditions in SQL, by table pattern."""
    reader: str = ""
    """The id of the change log that reads the slot; empty where no log is written."""

    @property
    def publications(self) -> tuple[str, str]:
        """The names of the publications: of all changes, and of inserts alone."""
        return self.publication, f"{self.publication}_inserts"

    def claim(self) -> "Claim":
        """The claim of the log on the slot."""
        from changeling.postgres.claim import Claim

        return Claim(self.name, self.slot, self.publications, self.reader)


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
