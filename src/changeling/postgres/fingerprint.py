"""Detects whether rows of a table changed without a change in the WAL: a new column with a default, a rewritten table."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from changeling.model.errors import UsageError, nearest
from changeling.postgres.catalog import CatalogTable, Connection, keys_of, partitions
from changeling.postgres.column_rules import ColumnRules

_COLUMNS = """
SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod,
       a.atthasmissing OR a.atthasdef OR a.attnotnull OR a.attidentity <> '',
       CASE WHEN a.attgenerated = 's' THEN pg_get_expr(d.adbin, d.adrelid) ELSE '' END, a.xmin::text::bigint
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v' ORDER BY a.attrelid, a.attnum
"""
# A default that was dropped later has left its value in the rows.
_FILLED = "SELECT attrelid, attname FROM pg_attribute WHERE attrelid = ANY(%s) AND atthasmissing"
# A partition that was created as one is as old as its entry in pg_inherits; an attached one is older, and may have brought rows along.
# Within one transaction, ATTACH is the command that alters its columns; a table created as a partition has them before its entry.
_FILES = """
SELECT c.oid, c.relfilenode::bigint, EXISTS (
         SELECT FROM pg_partition_ancestors(c.oid) AS own(oid) JOIN pg_inherits i ON i.inhrelid = own.oid
         JOIN pg_attribute a ON a.attrelid = own.oid AND a.attnum = -1 WHERE i.xmin <> a.xmin OR EXISTS (
           SELECT FROM pg_attribute c WHERE c.attrelid = own.oid AND c.attnum > 0 AND c.xmin = i.xmin AND c.cmin = i.cmin)),
       ARRAY(SELECT i.xmin::text::bigint FROM pg_partition_ancestors(c.oid) WITH ORDINALITY AS own(oid, height)
             JOIN pg_inherits i ON i.inhrelid = own.oid ORDER BY own.height)
FROM pg_class c WHERE c.oid = ANY(%s) AND c.relfilenode <> 0 ORDER BY c.oid
"""
# A table without an entry of its own in a publication may leave it and return, unlogged or in another schema in between.
_PUBLISHED = """
SELECT t.oid, p.oid::bigint, p.xmin::text::bigint,
       coalesce(r.oid::bigint, CASE WHEN p.puballtables THEN c.relfilenode::bigint ELSE {schema_place} END)
FROM unnest(%s::oid[]) AS t(oid) CROSS JOIN pg_publication p LEFT JOIN pg_class c ON c.oid = t.oid
LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = t.oid WHERE p.pubname = ANY(%s) ORDER BY 1, 2
"""
_SCHEMA_PLACE = """
coalesce((SELECT n.oid::bigint << 32 | c.xmin::text::bigint FROM pg_publication_namespace n
          WHERE n.pnpubid = p.oid AND n.pnnspid = c.relnamespace), 0)
"""
# A constraint keeps its oid when its index is rebuilt, but not when it is dropped and added.
_KEY_PLACES = """
SELECT i.indrelid, i.indisprimary, coalesce(k.oid, i.indexrelid)::bigint
FROM pg_index i LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u')
WHERE i.indrelid = ANY(%s) AND (i.indisprimary OR i.indisreplident) AND i.indisvalid AND i.indimmediate
"""
SAME_TEXT = {25, 1043}
"""The oids of `text` and `varchar`."""
_SCHEMAS_PUBLISHED = 150_000
"""PostgreSQL 15: the first that publishes all tables of a schema."""


class ColumnFingerprint(msgspec.Struct, frozen=True, array_like=True):
    """One column, by its number in the table."""

    number: int
    name: str
    type: int
    typmod: int
    filled: bool
    """Rows that are older than the column may have a value in it."""
    expression: str
    """The expression of a stored generated column; empty for others."""
    altered: int
    """The transaction that altered it last."""


class Fingerprint(msgspec.Struct, frozen=True, array_like=True):
    """A table at one point in time."""

    oid: int
    files: tuple[tuple[int, int, bool], ...]
    """The oid of the table or of each partition that stores rows, its file number, and whether it was attached."""
    key: tuple[str, ...]
    columns: tuple[ColumnFingerprint, ...]
    published: tuple[tuple[int, int, int], ...] = ()
    """The publications that may include it, when each was altered last, and the oid of its entry there."""
    links: tuple[tuple[int, tuple[int, ...]], ...] | None = None
    """For each partition that stores rows, the transactions that attached it and its ancestors; None where not recorded."""
    key_place: int | None = None
    """The oid of the constraint or index that keeps its key unique; None where not recorded."""

    def outdates(self, earlier: "Fingerprint") -> bool:
        """Whether rows that were read earlier may differ now, although no change in the WAL says so."""
        if (self.oid, self.key) != (earlier.oid, earlier.key):
            return True
        if self.published != earlier.published:
            # In between, it may not have been published.
            return True
        if earlier.key_place is not None and self.key_place != earlier.key_place:
            # In between, several rows may have had one key.
            return True
        before = {column.number: column for column in earlier.columns}
        added = [column for column in self.columns if column.number not in before]
        kept = [(before[column.number], column) for column in self.columns if column.number in before]
        files = {oid: file for oid, file, _ in earlier.files}
        rewritten = any(files.get(oid, file) != file for oid, file, _ in self.files)
        return (
            self._other_partitions(earlier)
            or any(column.filled or rewritten for column in added)
            or any(_other_values(was, now, rewritten) for was, now in kept)
            or self._names_mislead(earlier, added, kept)
        )

    def _other_partitions(self, earlier: "Fingerprint") -> bool:
        """Whether partitions were removed, truncated, or attached with rows: a stream by root does not report it."""
        before = {oid: file for oid, file, _ in earlier.files}
        if all(oid == self.oid for oid, _, _ in self.files) and set(before) <= {self.oid}:
            return False
        now = {oid: file for oid, file, _ in self.files}
        gone_or_emptied = any(now.get(oid) != file for oid, file in before.items())
        # A file has its table's oid until the table is truncated or rewritten.
        filled = any(file != oid or attached for oid, file, attached in self.files if oid not in before)
        return gone_or_emptied or filled or self._attached_again(earlier)

    def _attached_again(self, earlier: "Fingerprint") -> bool:
        """Whether a partition was detached for a while, in which its changes were not reported."""
        links = dict(earlier.links or ())
        return any(links.get(oid, link) != link for oid, link in self.links or ())

    def _names_mislead(
        self,
        earlier: "Fingerprint",
        added: "list[ColumnFingerprint]",
        kept: "list[tuple[ColumnFingerprint, ColumnFingerprint]]",
    ) -> bool:
        """Whether a column could be mistaken for another one.

        The log knows columns only by name, and takes a new name for a new column, unless nothing but names changed.
        """
        dropped = len(kept) < len(earlier.columns)
        if all(was.name == now.name for was, now in kept):
            return dropped and bool(added)
        taken = {was.name for was in earlier.columns}
        alike = all((was.type, was.typmod) == (now.type, now.typmod) for was, now in kept)
        moved = any(was.name != now.name and now.name in taken for was, now in kept)
        return bool(added) or dropped or moved or not alike


def _other_values(was: ColumnFingerprint, now: ColumnFingerprint, rewritten: bool) -> bool:
    if now.expression and was.expression != now.expression:
        return True
    if was.type != now.type and not {was.type, now.type} <= SAME_TEXT:
        # Binary-compatible types are not rewritten, though they mean something else.
        return True
    # A column may get other values even when it is altered to the type that it already had.
    return rewritten and was.altered != now.altered


def fingerprints(
    connection: Connection, found: Sequence[CatalogTable], publications: Sequence[str] = ()
) -> dict[str, Fingerprint]:
    """The fingerprints of tables, by their spelled names."""
    oids = [one.oid for one in found]
    root_of = {leaf.oid: leaf.root for leaf in partitions(connection, [one.oid for one in found if one.partitioned])}
    keys = keys_of(connection, found)
    filled = {(root_of[oid], name) for oid, name in connection.execute(_FILLED, (list(root_of),)).fetchall()}
    columns: dict[int, list[ColumnFingerprint]] = defaultdict(list)
    for oid, *row in connection.execute(_COLUMNS, (oids,)).fetchall():
        column = ColumnFingerprint(*row)
        if (oid, column.name) in filled:
            column = msgspec.structs.replace(column, filled=True)
        columns[oid].append(column)
    files: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)
    links: dict[int, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
    for oid, file, attached, own in connection.execute(_FILES, ([*oids, *root_of],)).fetchall():
        files[root_of.get(oid, oid)].append((oid, file, attached))
        if oid in root_of:
            links[root_of[oid]].append((oid, tuple(own)))
    published: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    by_schema = _SCHEMA_PLACE if connection.info.server_version >= _SCHEMAS_PUBLISHED else "0"
    query = _PUBLISHED.format(schema_place=by_schema)
    for oid, *place in connection.execute(query, (oids, list(publications))).fetchall():
        published[oid].append((place[0], place[1], place[2]))
    places = {(oid, primary): place for oid, primary, place in connection.execute(_KEY_PLACES, (oids,)).fetchall()}
    return {
        one.table.spelled(): Fingerprint(
            one.oid,
            tuple(files[one.oid]),
            keys[one.oid],
            tuple(columns[one.oid]),
            tuple(published[one.oid]),
            tuple(links[one.oid]),
            _key_place(one, places),
        )
        for one in found
    }


def _key_place(one: CatalogTable, places: dict[tuple[int, bool], int]) -> int:
    primary, identity = places.get((one.oid, True), 0), places.get((one.oid, False), 0)
    return identity or primary if one.identity == "index" else primary


def check_names(what: str, rules: ColumnRules, now: Fingerprint, then: Fingerprint | None) -> None:
    """Raises `UsageError` where rules name a column that a table never had, or has under another name.

    A column that was dropped since is allowed: the WAL may still have values of it.
    """
    names = {column.name: column.number for column in now.columns}
    earlier = {column.name: column.number for column in then.columns} if then is not None else {}
    for missing in (name for name in rules.named if name not in names):
        became = next((name for name, number in names.items() if number == earlier.get(missing)), None)
        if missing in earlier and (became is None or rules.treatment(became) != "plain"):
            continue
        hint = f"it is called {became!r} now" if became else nearest(missing, names)
        raise UsageError(f"{what} has no column {missing!r}, which a rule names: {hint}")
