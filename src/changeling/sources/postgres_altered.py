"""Tables whose columns are others than the log knows, although no row of them changed: their new schema comes without rows.

A schema must stand where it holds: behind every change with the schema before it, and before every change with a later one. An
`ALTER TABLE` waits for all who write the table, so that changes before it commit before it. Hence a schema that two looks at
the catalog agree on holds at every place of the log between them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from changeling.model.table import TableName
from changeling.postgres.catalog import CatalogTable
from changeling.postgres.fingerprint import Fingerprint
from changeling.postgres.published_table import PublishedTable
from changeling.sources.postgres_capture import Capture
from changeling.sources.postgres_known import KnownTables
from changeling.sources.postgres_plan import Altered


@dataclass
class AlteredTables:
    """Finds them by comparing a look at the catalog with the one before it."""

    capture: Capture
    known: KnownTables
    _prints: dict[str, Fingerprint] = field(default_factory=dict)
    _lsn: int = 0

    def look(self) -> None:
        """The earlier look; every place of the log from now on is behind it."""
        self._prints, self._lsn = self.capture.prints(), self.capture.inserted()

    def at(self, place: int) -> tuple[Altered, ...]:
        """The tables whose schema is not in the log and holds at a place of the server's log that is on disk."""
        now = self.capture.prints()
        found = list(self.known.reshaped(self.capture.found, now))
        if not found:
            return ()
        agreed = [one for one in found if self._lsn <= place and self._agree(one.table, now)]
        if len(agreed) < len(found):
            self.look()
        return self._altered(agreed, now)

    def _agree(self, table: TableName, now: dict[str, Fingerprint]) -> bool:
        before = self._prints.get(table.spelled())
        return before is not None and before.columns == now[table.spelled()].columns

    def _altered(self, found: Sequence[CatalogTable], now: dict[str, Fingerprint]) -> tuple[Altered, ...]:
        if not found:
            return ()
        tables, relations = self.capture.tables(), self.capture.relations(found)
        later = self.capture.prints()
        altered = []
        for one, relation in zip(found, relations, strict=True):
            name = one.table.spelled()
            if name in later and later[name].columns == now[name].columns:
                rules = tables.rules_of(one.table.schema or "", one.table.name)
                altered.append(Altered(one.table, PublishedTable(relation, rules).schema_text, now[name].columns))
        return tuple(altered)
