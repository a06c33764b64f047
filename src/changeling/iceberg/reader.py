"""The tables of a pipeline without Spark: PyIceberg reads them in a fraction of a second."""

from collections.abc import Iterator
from copy import copy
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table as IcebergTable

from changeling.iceberg.catalog import NAME, Catalog, check_place, prepare
from changeling.iceberg.conditions import EVERYTHING, Condition
from changeling.iceberg.embedded_catalog import EmbeddedCatalog
from changeling.iceberg.table_definition import TableDefinition
from changeling.model.errors import ChangelingError


class Tables:
    """One pipeline's tables, to read. What does not exist yet is empty."""

    def __init__(self, catalog: Catalog, namespace: str) -> None:
        self._settings, self._namespace = catalog, namespace
        self._catalog: PyIcebergCatalog | None = None

    def summaries(self, table: TableDefinition, tag: str | None = None) -> Iterator[dict[str, Any]]:
        """The summaries of snapshots from the newest back, as far as they are not expired, and of the tagged one."""
        found = self._load(table)
        if found is not None:
            yield from summaries_of(found, tag)

    def rows(
        self, table: TableDefinition, where: Condition = EVERYTHING, columns: tuple[str, ...] = ("*",)
    ) -> pa.Table:
        """The rows of a table, or those that match a condition."""
        found = self._load(table)
        if found is None:
            return table.columns.empty_table()
        return found.scan(row_filter=where, selected_fields=columns).to_arrow()

    def in_namespace(self, namespace: str) -> "Tables":
        """Another namespace of the same catalog."""
        made = copy(self)
        made._namespace = namespace
        return made

    def names(self) -> list[str]:
        """The existing tables; none where the namespace does not exist."""
        try:
            catalog = self._open()
            return [] if catalog is None else [name for _, name in catalog.list_tables(self._namespace)]
        except NoSuchNamespaceError:
            return []

    def namespaces(self) -> list[str]:
        """The namespaces of the catalog, those inside of others left out."""
        catalog = self._open()
        return [] if catalog is None else sorted(name for name, *_ in catalog.list_namespaces())

    def load(self, name: str) -> IcebergTable | None:
        """A table as PyIceberg has it; None where there is none of that name."""
        return self._load(TableDefinition(name, pa.schema([])))

    def catalog(self) -> PyIcebergCatalog:
        """The catalog, to write small tables without Spark; the embedded one is created where it is missing."""
        if self._settings.database is not None:
            prepare(self._settings.database)
        opened = self._open()
        assert opened is not None
        return opened.writer if isinstance(opened, EmbeddedCatalog) else opened

    @property
    def namespace(self) -> str:
        """The namespace of these tables."""
        return self._namespace

    def _open(self) -> PyIcebergCatalog | None:
        if self._settings.database is not None:
            if not self._settings.database.exists():
                return None
            if self._catalog is None:
                # It may be there and have no tables yet: whoever creates it does that just now.
                prepare(self._settings.database)
        check_place(self._settings, self._namespace)
        if self._catalog is None:
            self._catalog = _opened(self._settings)
        return self._catalog

    def _load(self, table: TableDefinition) -> IcebergTable | None:
        try:
            catalog = self._open()
            return None if catalog is None else catalog.load_table((self._namespace, table.name))
        except ChangelingError:
            raise
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except Exception as error:  # each catalog and store raises its own kinds
            raise ChangelingError(f"the catalog cannot be read: {error}") from error


def _opened(settings: Catalog) -> PyIcebergCatalog:
    database = settings.database
    if database is not None and settings.pyiceberg["uri"] == f"sqlite:///{database}":
        return EmbeddedCatalog(NAME, database, settings.pyiceberg)
    return load_catalog(NAME, **settings.pyiceberg)


def summaries_of(table: IcebergTable, tag: str | None) -> Iterator[dict[str, Any]]:
    """The summaries of a loaded table, as `Tables.summaries` gives them."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)
        snapshot = None if snapshot.parent_snapshot_id is None else table.snapshot_by_id(snapshot.parent_snapshot_id)
    tagged = None if tag is None else table.snapshot_by_name(tag)
    if tagged is not None and tagged.summary is not None:
        yield dict(tagged.summary.additional_properties)
