"""Unique constraints that somebody else put on tables of a target: what is wrong with one that a step fails on."""

from psycopg import errors

from changeling.targets.schema_changes import Connection


def hint(connection: Connection, error: errors.UniqueViolation) -> str | None:
    """What to do about a constraint that is checked row by row; None for a primary key, or where PostgreSQL could wait."""
    told = error.diag
    found = connection.execute(
        "SELECT 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE (n.nspname, c.relname) = (%s, %s) AND i.indimmediate AND NOT i.indisprimary",
        (told.schema_name, told.constraint_name),
    ).fetchone()
    if found is None:
        return None
    return (
        f"{told.constraint_name!r} was added to table {told.schema_name}.{told.table_name} by hand, and rows may swap their "
        "values within a step: it must be a constraint that is DEFERRABLE (ALTER TABLE … ADD UNIQUE (…) DEFERRABLE)"
    )
