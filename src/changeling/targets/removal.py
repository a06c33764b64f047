"""Takes away what a target made: its tables, the schemas that it made for them, its notes."""

import psycopg
from psycopg import sql

from changeling.targets.schema_changes import Connection, present
from changeling.targets.staging_table import drop_stages
from changeling.targets.table_mapping import SERVICE, Place
from changeling.targets.target_state import Ledger


def remove(connection: Connection, ledger: Ledger) -> list[Place]:
    """Drops all of it, or nothing; tells which tables went. Tables that somebody else made stay, with their rows."""
    if not ledger.is_there():
        return []
    ledger.check()
    drop_stages(connection, ledger.leftovers())
    with connection.transaction():
        entries = ledger.tables()
        there = present(connection, sorted(entries))
        made = [place for place in sorted(there) if entries[place].created and entries[place].oid == there[place].oid]
        for place in made:
            connection.execute(sql.SQL("DROP TABLE {}").format(place.quoted))
        ledger.forget()
        for schema in sorted({place.schema for place, entry in entries.items() if entry.schema_created}):
            _drop_empty(connection, schema)
        if not ledger.is_there():
            _drop_empty(connection, SERVICE)
    return made


def _drop_empty(connection: Connection, schema: str) -> None:
    """Drops a schema that nobody else has put something in."""
    try:
        with connection.transaction():
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {}").format(sql.Identifier(schema)))
    except psycopg.errors.DependentObjectsStillExist:
        return
