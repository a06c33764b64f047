"""The embedded catalog for readers without Spark: SQLite is asked directly.

PyIceberg's own catalog does the same by way of SQLAlchemy, which takes longer to import than most commands take for all they do. It is
what writes.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.typedef import Identifier

_OF_TABLES = ("TABLE", None)
"""What the column `iceberg_type` says of tables; views have another word. Older catalogs do not have the column."""


class EmbeddedCatalog(NoopCatalog):
    """The tables of the SQLite file. Those that are loaded commit by way of `writer`."""

    def __init__(self, name: str, database: Path, settings: dict[str, str]) -> None:
        super().__init__(name, **settings)
        self._database = database
        self._settings = settings

    @cached_property
    def writer(self) -> Catalog:
        """PyIceberg's catalog, which does all that is not done here."""
        return load_catalog(self.name, **self._settings)

    def load_table(self, identifier: str | Identifier) -> Table:
        """Raises `NoSuchTableError` where there is none of that name."""
        *namespace, name = self.identifier_to_tuple(identifier)
        query = "SELECT * FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
        found = next(self._tables(query, ".".join(namespace), name), None)
        if found is None:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(namespace)}.{name}")
        place = str(found["metadata_location"])
        metadata = FromInputFile.table_metadata(load_file_io(self.properties, place).new_input(place))
        files = load_file_io({**self.properties, **metadata.properties}, place)
        return Table((*namespace, name), metadata, place, files, self)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """The tables of a namespace; none where there is no such namespace."""
        names = self.identifier_to_tuple(namespace)
        query = "SELECT * FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ?"
        return [(*names, str(found["table_name"])) for found in self._tables(query, ".".join(names))]

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """All namespaces; only those at the top can be asked for, since pipelines make no others."""
        if namespace:
            raise NotImplementedError
        query = """
            SELECT table_namespace AS namespace FROM iceberg_tables WHERE catalog_name = :name
            UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = :name
        """
        with closing(self._connected()) as connection:
            found = connection.execute(query, {"name": self.name}).fetchall()
        return sorted({(str(row["namespace"]).partition(".")[0],) for row in found})

    def _tables(self, query: str, *of: str) -> Iterator[sqlite3.Row]:
        with closing(self._connected()) as connection:
            rows = connection.execute(query, (self.name, *of)).fetchall()
        return (row for row in rows if "iceberg_type" not in row.keys() or row["iceberg_type"] in _OF_TABLES)  # noqa: SIM118

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._database, timeout=60)
        connection.row_factory = sqlite3.Row
        return connection

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """Commits what was done to a table that was loaded here."""
        return self.writer.commit_table(table, requirements, updates)
