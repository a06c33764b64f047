"""Publications: which tables a slot streams. Created and altered as tables appear; an existing one is used if it is sufficient."""

from collections.abc import Iterable, Mapping, Sequence

import psycopg
from psycopg import sql

from changeling.model.errors import ChangelingError
from changeling.model.table import TableName
from changeling.postgres.catalog import CatalogTable, Connection
from changeling.postgres.readiness import ROW_FILTERS, Need, Server

_MEMBERS = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s"
_FILTERS = "SELECT schemaname, tablename, rowfilter FROM pg_publication_tables WHERE pubname = %s"
_SETTINGS = """
SELECT array_remove(ARRAY[CASE WHEN pubinsert THEN 'insert' END, CASE WHEN pubupdate THEN 'update' END,
                          CASE WHEN pubdelete THEN 'delete' END, CASE WHEN pubtruncate THEN 'truncate' END], NULL), pubviaroot
FROM pg_publication WHERE pubname = %s
"""
_LEFT_OUT = """
SELECT c.oid, array_agg(a.attname::text ORDER BY a.attnum), bool_and(a.attgenerated = 's')
FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename JOIN pg_attribute a ON a.attrelid = c.oid
WHERE p.pubname = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ANY(%s) AND a.attname <> ALL (p.attnames)
GROUP BY c.oid
"""
_ALL = "insert, update, delete, truncate"
_INSERTS = "insert, truncate"
_PROBE = "changeling_probe"
"""A publication that is never committed: it shows how the server writes a filter."""


class Publication:
    """One publication, by its name. `inserts_only` is for tables whose updates and deletes identify no row."""

    def __init__(self, name: str, *, inserts_only: bool = False) -> None:
        self.name, self._inserts_only = name, inserts_only
        self._publish = _INSERTS if inserts_only else _ALL

    def exists(self, connection: Connection) -> bool:
        """Whether it exists."""
        return bool(connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (self.name,)).fetchone())

    def members(self, connection: Connection) -> set[tuple[str, str]]:
        """Schema and name of each table in it, partitions by their roots."""
        return {(schema, name) for schema, name in connection.execute(_MEMBERS, (self.name,)).fetchall()}

    def ensure(
        self, connection: Connection, server: Server, tables: Sequence[CatalogTable], filters: Mapping[TableName, str]
    ) -> list[CatalogTable]:
        """Creates the publication, or adds the missing tables; returns those that were added.

        Raises `ChangelingError` with the statement to run where the user may not, where the publication would stream less
        than a snapshot shows, or where the server would refuse updates of a table in it: then nothing is altered.
        """
        if filters and server.version < ROW_FILTERS:
            raise ChangelingError("rows can be filtered from PostgreSQL 15 on: leave `where` out, or filter in a view")
        with connection.transaction():
            exists = self.exists(connection)
            if exists:
                self._check_settings(connection, tables)
            known = self.members(connection) if exists else set()
            missing = [one for one in tables if _place(one) not in known]
            if missing or not exists:
                self._run(connection, self._statement(exists, server, missing, filters))
            if exists and server.version >= ROW_FILTERS:
                self._check_columns(connection, server, tables)
                self._check_filters(connection, [one for one in tables if one not in missing], filters)
            if not self._inserts_only:
                for one in missing:
                    _check_writable(connection, one, filtered=one.table in filters)
        return missing

    def needs(
        self, connection: Connection, server: Server, tables: Sequence[CatalogTable], filters: Mapping[TableName, str]
    ) -> list[Need]:
        """The statement that somebody else has to run before `ensure` if the user may not; nothing is altered."""
        exists = self.exists(connection)
        known = self.members(connection) if exists else set()
        missing = [one for one in tables if _place(one) not in known]
        if exists and not missing:
            return []
        statement = self._statement(exists, server, missing, filters)
        try:
            # The server checks privileges first; `ensure` reports any other problem.
            with connection.transaction(force_rollback=True):
                connection.execute(statement)
        except psycopg.errors.InsufficientPrivilege as error:
            return [Need(_may_not(error, statement), (statement.as_string(None),))]
        except psycopg.Error:
            return []
        return []

    def drop(self, connection: Connection) -> None:
        """Drops it if it exists."""
        connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(self.name)))

    def _statement(
        self, exists: bool, server: Server, tables: Iterable[CatalogTable], filters: Mapping[TableName, str]
    ) -> sql.Composed:
        name = sql.Identifier(self.name)
        listed = sql.SQL(", ").join(_member(one.table, filters.get(one.table)) for one in tables)
        if exists:
            return sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, listed)
        settings = ["publish_via_partition_root = true"]
        if self._inserts_only:
            settings.append(f"publish = '{self._publish}'")
        if server.publishes_generated:
            settings.append("publish_generated_columns = stored")
        members = sql.SQL(" FOR TABLE {}").format(listed) if listed.as_string(None) else sql.SQL("")
        return sql.SQL("CREATE PUBLICATION {}{} WITH ({})").format(name, members, sql.SQL(", ".join(settings)))

    def _run(self, connection: Connection, statement: sql.Composed) -> None:
        try:
            connection.execute(statement)
        except psycopg.errors.InsufficientPrivilege as error:
            raise ChangelingError(_may_not(error, statement)) from None
        except psycopg.Error as error:
            raise ChangelingError(f"{_reason(error)}, when running: {statement.as_string(None)}") from None

    def _check_settings(self, connection: Connection, tables: Sequence[CatalogTable]) -> None:
        (published, by_root), *_ = connection.execute(_SETTINGS, (self.name,)).fetchall()
        if set(published) != set(self._publish.split(", ")):
            raise self._insufficient(
                f"publishes {', '.join(published) or 'nothing'}", f"SET (publish = '{self._publish}')"
            )
        if not by_root and any(one.partitioned for one in tables):
            raise self._insufficient(
                "publishes partitions under their own names", "SET (publish_via_partition_root = true)"
            )

    def _check_columns(self, connection: Connection, server: Server, tables: Sequence[CatalogTable]) -> None:
        generated = ["", "s"] if server.publishes_generated else [""]
        by_oid = {one.oid: one for one in tables}
        for oid, columns, only_generated in connection.execute(_LEFT_OUT, (self.name, generated)).fetchall():
            if oid in by_oid:
                place = _spelled(by_oid[oid].table)
                change = "SET (publish_generated_columns = stored)" if only_generated else f"DROP TABLE {place}"
                raise self._insufficient(f"does not publish {', '.join(columns)} of {place}", change)

    def _check_filters(
        self, connection: Connection, tables: Sequence[CatalogTable], filters: Mapping[TableName, str]
    ) -> None:
        found = connection.execute(_FILTERS, (self.name,)).fetchall()
        filtered = {(schema, name): text for schema, name, text in found}
        for one in tables:
            has, wanted = filtered.get(_place(one)), filters.get(one.table)
            if has is None and wanted is None:
                continue
            if has is None or wanted is None or _respelled(connection, one.table, wanted) not in (None, has):
                place = _spelled(one.table)
                state = "has no filter for" if has is None else f"publishes only rows with {has} of"
                raise self._insufficient(
                    f"{state} {place}, other than `where`", f"DROP TABLE {place}, then snapshot the table again"
                )

    def _insufficient(self, what: str, change: str) -> ChangelingError:
        name = sql.Identifier(self.name).as_string(None)
        return ChangelingError(
            f"publication {self.name} {what}: run ALTER PUBLICATION {name} {change}; or choose another name with `publication:`"
        )


def _respelled(connection: Connection, table: TableName, condition: str) -> str | None:
    """A condition as the server would write it; None where the user may not create a publication."""
    try:
        with connection.transaction(force_rollback=True):
            statement = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}")
            connection.execute(statement.format(sql.Identifier(_PROBE), _member(table, condition)))
            ((_, _, spelled),) = connection.execute(_FILTERS, (_PROBE,)).fetchall()
            return str(spelled)
    except psycopg.errors.InsufficientPrivilege:
        return None
    except psycopg.Error as error:
        raise ChangelingError(f"{_spelled(table)} cannot be filtered by {condition}: {_reason(error)}") from None


def _check_writable(connection: Connection, one: CatalogTable, *, filtered: bool) -> None:
    """Raises `ChangelingError` where the server would refuse updates and deletes for lack of a replica identity.

    EXPLAIN begins a statement far enough to find out; where the user may not even explain it, nothing is known.
    """
    only = sql.SQL("" if one.partitioned else "ONLY ")
    name = sql.Identifier(one.table.schema or "", one.table.name)
    try:
        # The rollback releases the locks.
        with connection.transaction(force_rollback=True):
            connection.execute(sql.SQL("EXPLAIN DELETE FROM {}{}").format(only, name))
    except psycopg.errors.InsufficientPrivilege:
        return
    except psycopg.Error as error:
        way_out = f": filter by its key alone, or run ALTER TABLE {_spelled(one.table)} REPLICA IDENTITY FULL"
        raise ChangelingError(
            f"the server would refuse updates and deletes of {_spelled(one.table)} once it is published ({_reason(error)})"
            f"{way_out if filtered else ''}"
        ) from None


def _may_not(error: psycopg.Error, statement: sql.Composed) -> str:
    return f"the user lacks the right to publish these tables ({_reason(error)}); let their owner run: {statement.as_string(None)}"


def _reason(error: psycopg.Error) -> str:
    texts = [error.diag.message_primary or " ".join(str(error).split()), error.diag.message_detail]
    return ": ".join(part for part in texts if part).removesuffix(".")


def _place(one: CatalogTable) -> tuple[str, str]:
    return one.table.schema or "", one.table.name


def _spelled(table: TableName) -> str:
    return sql.Identifier(table.schema or "", table.name).as_string(None)


def _member(table: TableName, condition: str | None) -> sql.Composable:
    """The table alone, without those that inherit from it, which are separate tables."""
    name = sql.SQL("ONLY {}").format(sql.Identifier(table.schema or "", table.name))
    if condition is None:
        return name
    # The condition is the user's own SQL, as after WHERE in a query; the newline ends a comment.
    return sql.SQL("{} WHERE (").format(name) + sql.SQL(condition) + sql.SQL("\n)")
