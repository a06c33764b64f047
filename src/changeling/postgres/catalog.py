"""What the catalog of a database says about its tables: their names, columns, types and keys, and where their rows are stored."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec
import psycopg

from changeling.model.table import TableName
from changeling.postgres.relation import Identity, PgColumn, PgType, Relation, TypeKind

Connection = psycopg.Connection[Any]

_OWN_SCHEMA = "changeling"
"""Tables that Changeling itself writes are not captured."""
IDENTITIES: dict[str, Identity] = {"d": "default", "f": "full", "i": "index", "n": "nothing"}
"""By the letters of `pg_class.relreplident`, which the stream uses as well."""
_KINDS: dict[str, TypeKind] = {
    "b": "base",
    "e": "enum",
    "d": "domain",
    "c": "composite",
    "r": "range",
    "m": "multirange",
    "p": "base",
}

_READABLE = """
has_schema_privilege(c.relnamespace, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') AND NOT row_security_active(c.oid)
"""
_TABLES = f"""
SELECT c.oid, n.nspname, c.relname, c.relreplident, c.relkind = 'p' AS partitioned,
       pg_has_role(c.relowner, 'USAGE') AS owned, {_READABLE} AS readable
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', %s) AND n.nspname NOT LIKE 'pg\\_%%'
ORDER BY n.nspname, c.relname
"""
# A constraint that is not valid yet keeps the nulls that existed before.
# A virtual generated column is never published; a stored one only if the publication says so.
_COLUMNS = """
SELECT a.attrelid, a.attname, a.atttypid, a.atttypmod, format_type(a.atttypid, a.atttypmod),
       NOT a.attnotnull OR EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'n'
                                   AND k.conkey = ARRAY[a.attnum] AND NOT k.convalidated)
FROM pg_attribute a
WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ANY(%s)
ORDER BY a.attrelid, a.attnum
"""
# A deferred key may be shared by two rows within a transaction: the server does not use it as a replica identity.
_KEYS = """
SELECT i.indrelid, i.indisprimary, i.indisreplident,
       ARRAY(SELECT a.attname FROM unnest(i.indkey) WITH ORDINALITY AS k(number, place)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
             WHERE k.place <= i.indnkeyatts ORDER BY a.attnum)::text[]
FROM pg_index i WHERE i.indrelid = ANY(%s) AND (i.indisprimary OR i.indisreplident)
  AND i.indisvalid AND i.indimmediate
"""
_TYPES = """
SELECT t.oid, n.nspname, t.typname, t.typtype, t.typelem,
       t.typtype = 'b' AND t.typcategory = 'A' AND t.typelem <> 0 AS is_array,
       t.typbasetype, coalesce(r.rngsubtype, 0)
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_range r ON r.rngtypid = t.oid OR r.rngmultitypid = t.oid
WHERE t.oid = ANY(%s)
"""
# Not `pg_partition_tree`, which locks every partition.
_PARTITIONS = f"""
WITH RECURSIVE tree(root, relid) AS (
  SELECT oid, oid FROM pg_class WHERE oid = ANY(%s) AND relkind = 'p'
  UNION ALL SELECT t.root, i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.relid AND NOT i.inhdetachpending)
SELECT t.root, c.oid, n.nspname, c.relname, c.relreplident, {_READABLE}
FROM tree t JOIN pg_class c ON c.oid = t.relid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' ORDER BY t.root, c.oid
"""
_LEAVES = """
SELECT t.relid::oid, n.nspname, c.relname, pg_relation_size(t.relid) / current_setting('block_size')::bigint
FROM pg_partition_tree(%s) t JOIN pg_class c ON c.oid = t.relid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE t.isleaf AND c.relkind = 'r'
UNION ALL
SELECT c.oid, n.nspname, c.relname, pg_relation_size(c.oid) / current_setting('block_size')::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s AND c.relkind = 'r'
ORDER BY 1
"""


class CatalogTable(msgspec.Struct, frozen=True):
    """A table that exists, whether or not it can be captured."""

    oid: int
    table: TableName
    identity: Identity
    partitioned: bool
    owned: bool
    readable: bool
    """Whether the user may read all of its rows."""
    lacking: tuple[TableName, ...] = ()
    """Partitions whose replica identity does not identify a changed row as the table's own would."""


class Partition(msgspec.Struct, frozen=True):
    """A partition that stores rows, with a replica identity and privileges of its own."""

    root: int
    oid: int
    table: TableName
    identity: Identity
    readable: bool


class Leaf(msgspec.Struct, frozen=True):
    """A table that stores rows: the table itself, or one of its partitions."""

    oid: int
    schema: str
    name: str
    blocks: int


def tables(connection: Connection, patterns: Sequence[str]) -> list[CatalogTable]:
    """The tables that match patterns such as `public.*`, by name; a pattern without a schema is one in `public`."""
    database = connection.info.dbname
    found = [
        CatalogTable(oid, TableName(database, schema, name), IDENTITIES[identity], partitioned, owned, readable)
        for oid, schema, name, identity, partitioned, owned, readable in connection.execute(
            _TABLES, (_OWN_SCHEMA,)
        ).fetchall()
    ]
    chosen = [one for one in found if any(matches(pattern, one.table) for pattern in patterns)]
    return _with_partitions(connection, chosen)


def partitions(connection: Connection, roots: Sequence[int]) -> list[Partition]:
    """The partitions that store rows of partitioned tables, by root and oid."""
    database = connection.info.dbname
    return [
        Partition(root, oid, TableName(database, schema, name), IDENTITIES[identity], readable)
        for root, oid, schema, name, identity, readable in connection.execute(_PARTITIONS, (list(roots),)).fetchall()
    ]


def _with_partitions(connection: Connection, found: list[CatalogTable]) -> list[CatalogTable]:
    """Adds what holds for the partitions: changes are logged and rows are read there, under settings of their own."""
    roots = {one.oid: one for one in found if one.partitioned}
    if not roots:
        return found
    leaves = partitions(connection, list(roots))
    keys = keys_of(connection, [*roots.values(), *leaves])
    lacking: dict[int, list[TableName]] = defaultdict(list)
    for leaf in leaves:
        if not _identifies(leaf.identity, keys[leaf.oid], roots[leaf.root].identity, keys[leaf.root]):
            lacking[leaf.root].append(leaf.table)
    unreadable = {leaf.root for leaf in leaves if not leaf.readable}
    return [
        msgspec.structs.replace(
            one, readable=one.readable and one.oid not in unreadable, lacking=tuple(lacking[one.oid])
        )
        for one in found
    ]


def _identifies(own: Identity, key: tuple[str, ...], wanted: Identity, wanted_key: tuple[str, ...]) -> bool:
    if own == "full":
        return True
    return {own, wanted} <= {"default", "index"} and bool(wanted_key) and set(key) == set(wanted_key)


def unmatched(found: Iterable[CatalogTable], patterns: Sequence[str]) -> list[str]:
    """The patterns that match no table."""
    names = [one.table for one in found]
    return [text for text in patterns if not any(matches(text, name) for name in names)]


def matches(pattern: str, table: TableName) -> bool:
    """Whether a table matches a pattern."""
    wanted = TableName.parse(pattern)
    return (
        _matches_name(table.name, wanted.name)
        and _matches_name(table.schema or "", wanted.schema or "public")
        and (wanted.catalog is None or wanted.catalog == table.catalog)
    )


def _matches_name(name: str, pattern: str) -> bool:
    """A name may itself contain wildcard characters."""
    return name == pattern or fnmatchcase(name, pattern)


def relations(connection: Connection, found: Sequence[CatalogTable], *, stored_generated: bool) -> list[Relation]:
    """The columns and keys of tables as the connection's snapshot shows them.

    `stored_generated`: the publication includes stored generated columns.
    """
    oids = [one.oid for one in found]
    generated = ["", "s"] if stored_generated else [""]
    rows = connection.execute(_COLUMNS, (oids, generated)).fetchall()
    types = types_of(connection, {row[2] for row in rows})
    keys = keys_of(connection, found)
    columns: dict[int, list[PgColumn]] = defaultdict(list)
    for relation, name, type_oid, typmod, spelled, nullable in rows:
        columns[relation].append(PgColumn(name, types[type_oid], typmod, spelled, nullable))
    return [Relation(one.oid, one.table, tuple(columns[one.oid]), keys[one.oid], one.identity) for one in found]


def key_of(connection: Connection, oid: int) -> tuple[str, ...]:
    """The primary key of a table; empty where it has none."""
    rows = connection.execute(_KEYS, ([oid],)).fetchall()
    return next((tuple(names) for _, primary, _, names in rows if primary), ())


def required(connection: Connection, oid: int) -> set[str]:
    """The columns of a table that are never null."""
    rows = connection.execute(_COLUMNS, ([oid], ["", "s"])).fetchall()
    return {name for _, name, _, _, _, nullable in rows if not nullable}


def keys_of(connection: Connection, found: Sequence[CatalogTable | Partition]) -> dict[int, tuple[str, ...]]:
    """The columns that identify rows, in the column order of the table, as in the stream."""
    rows = connection.execute(_KEYS, ([one.oid for one in found],)).fetchall()
    by_primary = {oid: tuple(names) for oid, primary, _, names in rows if primary}
    by_identity = {oid: tuple(names) for oid, _, identity, names in rows if identity}
    return {one.oid: (by_identity if one.identity == "index" else by_primary).get(one.oid, ()) for one in found}


def types_of(connection: Connection, oids: Iterable[int]) -> dict[int, PgType]:
    """Types by oid, with their element types; one that was dropped since is a base type without a name."""
    rows: dict[int, tuple[Any, ...]] = {}
    wanted = {oid for oid in oids if oid}
    while wanted:
        found = connection.execute(_TYPES, (list(wanted),)).fetchall()
        rows |= {row[0]: row for row in found}
        rows |= {oid: (oid, "", "", "b", 0, False, 0, 0) for oid in wanted if oid not in rows}
        wanted = {part for row in found for part in _parts(row) if part and part not in rows}
    return {oid: _type(oid, rows) for oid in rows}


def _parts(row: tuple[Any, ...]) -> tuple[int, ...]:
    _, _, _, _, element, is_array, base, spans = row
    return (element if is_array else 0, base, spans)


def _type(oid: int, rows: dict[int, tuple[Any, ...]]) -> PgType:
    _, schema, name, kind, *_ = rows[oid]
    inner = next((part for part in _parts(rows[oid]) if part), 0)
    is_array = rows[oid][5]
    return PgType(
        oid, schema, name, "array" if is_array else _KINDS.get(kind, "base"), _type(inner, rows) if inner else None
    )


def leaves(connection: Connection, oid: int) -> list[Leaf]:
    """The tables that store the rows of a table and how many blocks each has, in the order of their oids."""
    found = connection.execute(_LEAVES, (oid, oid)).fetchall()
    return [Leaf(*row) for row in {row[0]: row for row in found}.values()]
