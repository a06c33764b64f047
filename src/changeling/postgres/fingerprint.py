"""What tells whether rows of a table changed without a change in the log: a new column with a default, a type written anew."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from changeling.model.errors import UsageError, nearest
from changeling.postgres.catalog import Connection, Found, keys_of, partitions
from changeling.postgres.columns import ColumnRules

_COLUMNS = """
SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod,
       a.atthasmissing OR a.atthasdef OR a.attnotnull OR a.attidentity <> '',
       CASE WHEN a.attgenerated = 's' THEN pg_get_expr(d.adbin, d.adrelid) ELSE '' END, a.xmin::text::bigint
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v' ORDER BY a.attrelid, a.attnum
"""
# A default that was dropped again has left its value in the rows.
_FILLED = "SELECT attrelid, attname FROM pg_attribute WHERE attrelid = ANY(%s) AND atthasmissing"
# A partition that was made as one is as old as its place; one that was attached is older, and may have brought rows along. Within one
# transaction, to attach it is the command that alters its columns, while one that is made as a partition has them before its place.
_FILES = """
SELECT c.oid, c.relfilenode::bigint, EXISTS (
         SELECT FROM pg_partition_ancestors(c.oid) AS own(oid) JOIN pg_inherits i ON i.inhrelid = own.oid
         JOIN pg_attribute a ON a.attrelid = own.oid AND a.attnum = -1 WHERE i.xmin <> a.xmin OR EXISTS (
           SELECT FROM pg_attribute c WHERE c.attrelid = own.oid AND c.attnum > 0 AND c.xmin = i.xmin AND c.cmin = i.cmin)),
       ARRAY(SELECT i.xmin::text::bigint FROM pg_partition_ancestors(c.oid) WITH ORDINALITY AS own(oid, height)
             JOIN pg_inherits i ON i.inhrelid = own.oid ORDER BY own.height)
FROM pg_class c WHERE c.oid = ANY(%s) AND c.relfilenode <> 0 ORDER BY c.oid
"""
# A table that has no place of its own in a publication may leave it and come back, unlogged or in another schema meanwhile.
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
# A constraint keeps its number when its index is made again; it does not when it is dropped and added.
_KEY_PLACES = """
SELECT i.indrelid, i.indisprimary, coalesce(k.oid, i.indexrelid)::bigint
FROM pg_index i LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u')
WHERE i.indrelid = ANY(%s) AND (i.indisprimary OR i.indisreplident) AND i.indisvalid AND i.indimmediate
"""
SAME_TEXT = {25, 1043}
"""The numbers of `text` and `varchar`."""
_SCHEMAS_PUBLISHED = 150_000
"""PostgreSQL 15: the first that publishes all tables of a schema."""


class ColumnPrint(msgspec.Struct, frozen=True, array_like=True):
    """One column, by its number in the table."""

    number: int
    name: str
    type: int
    typmod: int
    filled: bool
    """Rows that were there before it may have a value in it."""
    expression: str
    """What its values are computed from and stored; empty where they are not."""
    altered: int
    """The transaction that altered it last."""


class Fingerprint(msgspec.Struct, frozen=True, array_like=True):
    """A table at one moment."""

    oid: int
    files: tuple[tuple[int, int, bool], ...]
    """The number of the table or of each partition that has rows, of the file that they are in, and whether it was attached."""
    key: tuple[str, ...]
    columns: tuple[ColumnPrint, ...]
    published: tuple[tuple[int, int, int], ...] = ()
    """The publications that may tell of it, when each was altered last, and the number of its place there."""
    links: tuple[tuple[int, tuple[int, ...]], ...] | None = None
    """Of each partition that has rows, the transactions that gave it and those above it their places; None where not noted."""
    key_place: int | None = None
    """The number of the constraint or index that keeps its key unique; None where not noted."""

    def outdates(self, earlier: "Fingerprint") -> bool:
        """Whether rows that were read earlier may be others now, although no change in the log says so."""
        if (self.oid, self.key) != (earlier.oid, earlier.key):
            return True
        if self.published != earlier.published:
            # Meanwhile, it may not have been told of all that happened.
            return True
        if earlier.key_place is not None and self.key_place != earlier.key_place:
            # Meanwhile, several rows may have had one key.
            return True
        before = {column.number: column for column in earlier.columns}
        added = [column for column in self.columns if column.number not in before]
        kept = [(before[column.number], column) for column in self.columns if column.number in before]
        files = {oid: file for oid, file, _ in earlier.files}
        written_anew = any(files.get(oid, file) != file for oid, file, _ in self.files)
        return (
            self._other_partitions(earlier)
            or any(column.filled or written_anew for column in added)
            or any(_other_values(was, now, written_anew) for was, now in kept)
            or self._names_mislead(earlier, added, kept)
        )

    def _other_partitions(self, earlier: "Fingerprint") -> bool:
        """Whether partitions went, were emptied, or came with rows: a log that tells their root says nothing of it."""
        before = {oid: file for oid, file, _ in earlier.files}
        if all(oid == self.oid for oid, _, _ in self.files) and set(before) <= {self.oid}:
            return False
        now = {oid: file for oid, file, _ in self.files}
        gone_or_emptied = any(now.get(oid) != file for oid, file in before.items())
        # A file has its table's number until the table is emptied or written again.
        filled = any(file != oid or attached for oid, file, attached in self.files if oid not in before)
        return gone_or_emptied or filled or self._attached_again(earlier)

    def _attached_again(self, earlier: "Fingerprint") -> bool:
        """Whether a partition was away for a while, in which nothing was reported of its rows."""
        links = dict(earlier.links or ())
        return any(links.get(oid, link) != link for oid, link in self.links or ())

    def _names_mislead(
        self, earlier: "Fingerprint", added: "list[ColumnPrint]", kept: "list[tuple[ColumnPrint, ColumnPrint]]"
    ) -> bool:
        """Whether a column could be taken for another one.

        The log knows columns by their names alone, and a new name for a new column, unless nothing but names is changed.
        """
        dropped = len(kept) < len(earlier.columns)
        if all(was.name == now.name for was, now in kept):
            return dropped and bool(added)
        taken = {was.name for was in earlier.columns}
        alike = all((was.type, was.typmod) == (now.type, now.typmod) for was, now in kept)
        moved = any(was.name != now.name and now.name in taken for was, now in kept)
        return bool(added) or dropped or moved or not alike


def _other_values(was: ColumnPrint, now: ColumnPrint, written_anew: bool) -> bool:
    if now.expression and was.expression != now.expression:
        return True
    if was.type != now.type and not {was.type, now.type} <= SAME_TEXT:
        # Some types share their bytes, and are not written anew, though they mean something else.
        return True
    # Even to the type that it had, a column may be altered with other values.
    return written_anew and was.altered != now.altered


def fingerprints(
    connection: Connection, found: Sequence[Found], publications: Sequence[str] = ()
) -> dict[str, Fingerprint]:
    """Those of tables, by their spelled names."""
    oids = [one.oid for one in found]
    root_of = {leaf.oid: leaf.root for leaf in partitions(connection, [one.oid for one in found if one.partitioned])}
    keys = keys_of(connection, found)
    filled = {(root_of[oid], name) for oid, name in connection.execute(_FILLED, (list(root_of),)).fetchall()}
    columns: dict[int, list[ColumnPrint]] = defaultdict(list)
    for oid, *row in connection.execute(_COLUMNS, (oids,)).fetchall():
        column = ColumnPrint(*row)
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


def _key_place(one: Found, places: dict[tuple[int, bool], int]) -> int:
    primary, identity = places.get((one.oid, True), 0), places.get((one.oid, False), 0)
    return identity or primary if one.identity == "index" else primary


def check_names(what: str, rules: ColumnRules, now: Fingerprint, then: Fingerprint | None) -> None:
    """Raises `UsageError` where rules name a column that a table does not have: never had, or has under another name.

    One that was dropped since may be told yet, by what the log has of it.
    """
    names = {column.name: column.number for column in now.columns}
    earlier = {column.name: column.number for column in then.columns} if then is not None else {}
    for missing in (name for name in rules.named if name not in names):
        became = next((name for name, number in names.items() if number == earlier.get(missing)), None)
        if missing in earlier and (became is None or rules.treatment(became) != "plain"):
            continue
        told = f"it is called {became!r} now" if became else nearest(missing, names)
        raise UsageError(f"{what} has no column {missing!r}, which a rule names: {told}")
