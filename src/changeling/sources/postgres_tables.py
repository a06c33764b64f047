"""Which tables of a database are captured: all that match the patterns, except those that cannot be captured as they are."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic

import msgspec

from changeling.model.errors import ChangelingError, UsageError, perhaps_meant
from changeling.model.table import TableName
from changeling.postgres import catalog, readiness
from changeling.postgres.catalog import CatalogTable, Connection
from changeling.postgres.column_rules import ColumnRules
from changeling.postgres.fingerprint import Fingerprint, check_names
from changeling.postgres.publication import Publication
from changeling.postgres.published_table import PublishedTable
from changeling.postgres.readiness import Need, Server, needs_error
from changeling.postgres.relation import Relation
from changeling.sources.postgres_reading import Tables
from changeling.sources.postgres_settings import CaptureSettings

_AGAIN_SECONDS = 10.0
"""How long until tables that were left out are checked again, even if nothing that `look` compares has changed."""


class CapturedTables:
    """The captured tables; `look` finds and publishes them."""

    def __init__(self, settings: CaptureSettings) -> None:
        self._settings = settings
        self._whole = Publication(settings.publication)
        self._inserts = Publication(settings.publications[1], inserts_only=True)
        self._looked: list[CatalogTable] = []
        self._again = 0.0
        self._warnings: list[str] = []
        self._reported: set[str] = set()
        self._added: list[str] = []
        self._present: dict[TableName, tuple[str, ...]] = {}
        self.found: list[CatalogTable] = []
        self.left_out: dict[TableName, str] = {}
        """The tables that are not captured although they match, and why."""

    def look(self, connection: Connection, server: Server, needs: Sequence[Need] = ()) -> None:
        """Publishes the tables that match the patterns now; one that cannot be captured is left out.

        Raises `ChangelingError` where none is left, or where the server itself lacks something: it lists everything that is
        missing, `needs` first, and nothing is altered.
        """
        found = catalog.tables(connection, self._settings.tables)
        for pattern in catalog.unmatched(found, self._settings.tables):
            if pattern not in self._reported:
                self._reported.add(pattern)
                self._warnings.append(f"there is no table {pattern!r} yet: {_what_then(connection, pattern)}")
        due = bool(self.left_out) and monotonic() >= self._again
        if not needs and not due and found == self._looked and self._are_published(connection):
            return
        looked = found
        relations = catalog.relations(connection, found, stored_generated=server.publishes_generated)
        for relation in relations:
            if not relation.columns:
                self._report(f"{relation.table} has no columns: it is captured once it has some")
        relations = [relation for relation in relations if relation.columns]
        found = [one for one in found if one.oid in {relation.oid for relation in relations}]
        faults = self._faults(connection, server, found, relations, needs)
        self._present = {
            relation.table: tuple(column.name for column in relation.columns)
            for relation in relations
            if self.rules_alone(relation.table) is not None
        }
        usable = [one for one in found if one.table not in faults]
        self.found = self._published(connection, server, usable, relations, faults)
        self.left_out = faults
        self._looked, self._again = looked, monotonic() + _AGAIN_SECONDS
        for why in faults.values():
            self._report(f"left out, while the other tables are captured: {why}")

    def leave_out(self, table: TableName, why: str) -> None:
        """Stops capturing a table until `look` accepts it again."""
        self.found = [one for one in self.found if one.table != table]
        self.left_out[table] = why
        self._report(f"left out, while the other tables are captured: {why}")

    def check_rules(self, prints: Mapping[str, Fingerprint], known: Callable[[str], Fingerprint | None]) -> None:
        """Leaves out tables whose rules name columns that they do not have; `known` has the tables as of their snapshots.

        Raises `UsageError` where no other table is captured.
        """
        for one in self.found:
            if (rules := self.rules_alone(one.table)) is None:
                continue
            name = one.table.spelled()
            try:
                check_names(f"source {self._settings.name}: {one.table}", rules, prints[name], known(name))
            except UsageError as error:
                if len(self.found) == 1:
                    raise
                self.leave_out(one.table, str(error))

    def forget(self) -> None:
        """Makes the next `look` start from scratch."""
        self.found, self._looked = [], []

    def _faults(
        self,
        connection: Connection,
        server: Server,
        found: list[CatalogTable],
        relations: list[Relation],
        needs: Sequence[Need],
    ) -> dict[TableName, str]:
        """Why tables cannot be captured. Raises `ChangelingError` where none can, or where the server lacks something."""
        lacking = readiness.needs(connection, found, relations, self._settings.without_identity)
        whole, inserts = self._by_identity(found, relations)
        filters = self._filters(found)
        rights = [
            *self._whole.needs(connection, server, whole, filters),
            *self._inserts.needs(connection, server, inserts, filters),
        ]
        faults: dict[TableName, list[str]] = {}
        for need in lacking:
            assert need.table is not None
            faults.setdefault(need.table, []).append(need.what)
        if rights:
            for one in found:
                publication = self._whole if one in whole else self._inserts
                for need in publication.needs(connection, server, [one], filters):
                    faults.setdefault(one.table, []).append(need.what)
        every = [*needs, *lacking, *rights]
        if needs or (rights and not self._exist(connection)) or (every and all(one.table in faults for one in found)):
            raise needs_error(self._settings.name, every)
        refused: UsageError | None = None
        for relation in relations:
            try:
                PublishedTable(relation, self._rules(relation.table))
            except UsageError as error:
                refused = error
                faults.setdefault(relation.table, []).append(str(error))
        if refused is not None and all(one.table in faults for one in found):
            raise refused
        return {table: "; ".join(texts) for table, texts in faults.items()}

    def _published(
        self,
        connection: Connection,
        server: Server,
        usable: list[CatalogTable],
        relations: list[Relation],
        faults: dict[TableName, str],
    ) -> list[CatalogTable]:
        """Publishes tables; those that cannot be published are added to `faults`, unless none is left."""
        filters = self._filters(usable)
        whole, inserts = self._by_identity(usable, relations)
        added: list[CatalogTable] = []
        # Both are created even without tables: servers before 18 refuse to read a log that is older than its publication.
        for publication, tables in ((self._whole, whole), (self._inserts, inserts)):
            try:
                added += publication.ensure(connection, server, tables, filters)
            except ChangelingError as refused:
                refusals: dict[TableName, str] = {}
                for one in tables:
                    try:
                        added += publication.ensure(connection, server, [one], filters)
                    except ChangelingError as error:
                        refusals[one.table] = str(error)
                if len(refusals) == len(tables):
                    raise refused from None
                faults.update(refusals)
        self._added += [one.table.spelled() for one in added]
        return [one for one in usable if one.table not in faults]

    def _by_identity(
        self, found: list[CatalogTable], relations: list[Relation]
    ) -> tuple[list[CatalogTable], list[CatalogTable]]:
        """The tables that are published with all changes, and those with inserts alone."""
        if self._settings.without_identity == "refuse":
            return found, []
        identified = {relation.oid for relation in relations if readiness.identified(relation)}
        return [one for one in found if one.oid in identified], [one for one in found if one.oid not in identified]

    def _exist(self, connection: Connection) -> bool:
        return self._whole.exists(connection) and self._inserts.exists(connection)

    def _are_published(self, connection: Connection) -> bool:
        known = self._whole.members(connection) | self._inserts.members(connection)
        return all((one.table.schema, one.table.name) in known for one in self.found)

    def added(self) -> list[str]:
        """The newly published tables, by their spelled names; each is reported once."""
        added, self._added = self._added, []
        return added

    def warnings(self) -> list[str]:
        """What a user should know; each is reported once."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def for_tasks(self) -> Tables:
        """What tasks need to know."""
        rules, filters = [], []
        for one in self.found:
            place = (one.table.schema or "", one.table.name)
            if (rule := self._rules(one.table)) is not None:
                rules.append((place, msgspec.structs.replace(rule, present=self._present.get(one.table, ()))))
            if (condition := self._filter(one.table)) is not None:
                filters.append((place, condition))
        settings = self._settings
        left_out = frozenset((table.schema or "", table.name) for table in self.left_out)
        return Tables(settings.name, settings.url, settings.tables, tuple(rules), tuple(filters), left_out)

    def rules_alone(self, table: TableName) -> ColumnRules | None:
        """The rules that are for one table alone."""
        found = next((one for one in self._settings.rules if catalog.matches(one[0], table)), None)
        return None if found is None or set(found[0]) & set("*?[") else found[1]

    def _rules(self, table: TableName) -> ColumnRules | None:
        return next((rule for pattern, rule in self._settings.rules if catalog.matches(pattern, table)), None)

    def _filter(self, table: TableName) -> str | None:
        return next((text for pattern, text in self._settings.filters if catalog.matches(pattern, table)), None)

    def _filters(self, found: list[CatalogTable]) -> dict[TableName, str]:
        return {one.table: text for one in found if (text := self._filter(one.table)) is not None}

    def _report(self, what: str) -> None:
        if what not in self._reported:
            self._reported.add(what)
            self._warnings.append(what)


def _what_then(connection: Connection, pattern: str) -> str:
    """What becomes of a pattern that matches no table, and which table it may mean."""
    known = (f"{one.table.schema}.{one.table.name}" for one in catalog.tables(connection, ("*.*",)))
    meant = perhaps_meant(pattern, known)
    return f"it is captured once it exists{'' if meant is None else f'; {meant}'}"
