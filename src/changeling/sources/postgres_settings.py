"""The settings of a PostgreSQL source."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
