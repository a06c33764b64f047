"""Whether a server and its tables can be captured; everything that is missing is reported with the statements that fix it."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from psycopg import sql

from changeling.model.errors import ChangelingError
from changeling.model.table import TableName
from changeling.postgres.catalog import CatalogTable, Connection, partitions
from changeling.postgres.relation import Relation

OLDEST = 140_000
"""PostgreSQL 14: the first that scans ranges of a table's blocks and streams logical messages."""
STORED_GENERATED = 180_000
ROW_FILTERS = 150_000
WithoutIdentity = Literal["refuse", "inserts"]

_RIGHTS = """
SELECT n.nspname, c.relname, has_schema_privilege(n.oid, 'USAGE'), has_table_privilege(c.oid, 'SELECT'), row_security_active(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY(%s) ORDER BY c.oid
"""
_COMPUTED_FOR_READERS = """
SELECT DISTINCT attrelid FROM pg_attribute WHERE attrelid = ANY(%s) AND attgenerated = 'v' AND NOT attisdropped
"""


class Need(msgspec.Struct, frozen=True):
    """One thing that is missing before a capture can start."""

    what: str
    """The problem and its remedy, as text for the user."""
    statements: tuple[str, ...] = ()
    """The statements for an administrator, without semicolons."""
    table: TableName | None = None
    """The table that lacks it, if the others can be captured without it."""


class Server(msgspec.Struct, frozen=True):
    """The identity of a server: while it is the same, positions keep their meaning."""

    system: str
    """The system identifier, which physical copies of the server share."""
    database: str
    version: int

    @property
    def publishes_generated(self) -> bool:
        """Whether stored generated columns can be published."""
        return self.version >= STORED_GENERATED


def server(connection: Connection) -> Server:
    """The server of a connection; raises `ChangelingError` where it does not support capture at all."""
    version = connection.info.server_version
    if version < OLDEST:
        raise ChangelingError(f"PostgreSQL {version // 10_000} is too old: 14 and later can be captured")
    (standby,) = _row(connection, "SELECT pg_is_in_recovery()")
    if standby:
        raise ChangelingError("the server is a standby, where nothing can be published: use the url of its primary")
    (system,) = _row(connection, "SELECT system_identifier::text FROM pg_control_system()")
    return Server(str(system), connection.info.dbname, version)


def server_needs(connection: Connection) -> list[Need]:
    """What the server's settings and the user's privileges lack for any capture."""
    needs = []
    (level,) = _row(connection, "SELECT current_setting('wal_level')")
    if level != "logical":
        statement = "ALTER SYSTEM SET wal_level = 'logical'"
        needs.append(
            Need(f"wal_level is {level}, and must be logical: run {statement}, then restart the server", (statement,))
        )
    (may,) = _row(
        connection,
        "SELECT rolsuper OR rolreplication OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname IN "
        "('rds_replication', 'cloudsqlsuperuser') AND pg_has_role(r.oid, 'MEMBER')) FROM pg_roles WHERE rolname = current_user",
    )
    if not may:
        statement = f"ALTER ROLE {sql.Identifier(connection.info.user).as_string(connection)} REPLICATION"
        needs.append(Need(f"the user lacks the right to replicate: run {statement}", (statement,)))
    return needs


def needs(
    connection: Connection,
    found: Sequence[CatalogTable],
    relations: Iterable[Relation],
    without_identity: WithoutIdentity,
) -> list[Need]:
    """What each table lacks that cannot be captured as it is, and the statements to run."""
    computed = {oid for (oid,) in connection.execute(_COMPUTED_FOR_READERS, ([one.oid for one in found],)).fetchall()}
    problems = []
    for one, relation in zip(found, relations, strict=True):
        name = f"{one.table.schema}.{one.table.name}"
        if not one.readable:
            grants = _grants(connection, one)
            problems.append(Need(f"{name} cannot be read: {'; '.join(grants)}", tuple(grants), one.table))
        if one.oid in computed and relation.identity == "full":
            statement = f"ALTER TABLE {_spelled(one.table)} REPLICA IDENTITY DEFAULT"
            problems.append(
                Need(
                    f"{name} has virtual generated columns, so that the server would refuse its updates and deletes once they are "
                    f"captured: run {statement}, and give it a primary key",
                    (statement,),
                    one.table,
                )
            )
        elif identified(relation) and one.lacking:
            full = _full(*one.lacking)
            what = f"{name} has partitions whose replica identity does not identify their rows: run {'; '.join(full)}"
            problems.append(Need(what, full, one.table))
        elif not identified(relation) and without_identity == "refuse":
            full = () if one.oid in computed else _full(one.table, *one.lacking)
            way_out = f", or run {'; '.join(full)}" if full else ""
            problems.append(
                Need(
                    f"{name} has nothing that identifies its rows, so that the server would refuse its updates and deletes once "
                    f"they are captured: add a primary key{way_out} (or set without_identity: inserts, to capture inserts alone)",
                    full,
                    one.table,
                )
            )
    return problems


def needs_error(source: str, needs: Iterable[Need]) -> ChangelingError:
    """One error for all needs; its statements can be run as they are, in this order."""
    needs = list(needs)
    lines = [
        f"source {source}: the database cannot be captured as it is; nothing was altered:",
        *(one.what for one in needs),
    ]
    statements = list(dict.fromkeys(statement for one in needs for statement in one.statements))
    if statements:
        lines += ["all that an administrator has to run, in this order:", *(f"  {one};" for one in statements)]
    return ChangelingError("\n  ".join(lines))


def identified(relation: Relation) -> bool:
    """Whether updates and deletes identify their row."""
    return relation.identity == "full" or (relation.identity != "nothing" and bool(relation.key))


def _row(connection: Connection, query: str) -> tuple[object, ...]:
    found = connection.execute(query).fetchone()
    assert found is not None
    return tuple(found)


def _grants(connection: Connection, one: CatalogTable) -> list[str]:
    user = sql.Identifier(connection.info.user).as_string(None)
    oids = [one.oid, *(leaf.oid for leaf in partitions(connection, [one.oid]))]
    wanted: dict[str, None] = {}
    for schema, name, usable, readable, secured in connection.execute(_RIGHTS, (oids,)).fetchall():
        if not usable:
            wanted[f"GRANT USAGE ON SCHEMA {sql.Identifier(schema).as_string(None)} TO {user}"] = None
        if not readable:
            wanted[f"GRANT SELECT ON {sql.Identifier(schema, name).as_string(None)} TO {user}"] = None
        if secured:
            # Row security would hide rows from the snapshot that the WAL contains.
            wanted[f"ALTER ROLE {user} BYPASSRLS"] = None
    return list(wanted)


def _full(*tables: TableName) -> tuple[str, ...]:
    return tuple(f"ALTER TABLE {_spelled(table)} REPLICA IDENTITY FULL" for table in tables)


def _spelled(table: TableName) -> str:
    return sql.Identifier(table.schema or "", table.name).as_string(None)
