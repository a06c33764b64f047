"""What tells whether rows of a table changed without a change in the log: a new column with a default, a type written anew."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from changeling.postgres.catalog import Connection, Found, keys_of

# A default that was dropped again has left its value in the rows, which of a partitioned table lie in its partitions.
_COLUMNS = """
SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod,
       a.atthasmissing OR a.atthasdef OR a.attnotnull OR a.attidentity <> '' OR (a.attrelid, a.attname) IN (
         SELECT r.oid, l.attname FROM pg_class r CROSS JOIN LATERAL pg_partition_tree(r.oid) t
         JOIN pg_attribute l ON l.attrelid = t.relid WHERE r.oid = ANY(%(oids)s) AND r.relkind = 'p' AND l.atthasmissing),
       CASE WHEN a.attgenerated = 's' THEN pg_get_expr(d.adbin, d.adrelid) ELSE '' END
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = ANY(%(oids)s) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v' ORDER BY a.attrelid, a.attnum
"""
_FILES = """
SELECT r.oid, coalesce((SELECT string_agg(c.relfilenode::text, ',' ORDER BY c.oid) FROM pg_class c
  WHERE c.oid = r.oid OR c.oid IN (SELECT relid FROM pg_partition_tree(r.oid))), '')
FROM pg_class r WHERE r.oid = ANY(%s)
"""
_SAME_TEXT = {25, 1043}
"""The numbers of `text` and `varchar`."""


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


class Fingerprint(msgspec.Struct, frozen=True, array_like=True):
    """A table at one moment."""

    oid: int
    files: str
    key: tuple[str, ...]
    columns: tuple[ColumnPrint, ...]

    def outdates(self, earlier: "Fingerprint") -> bool:
        """Whether rows that were read earlier may be others now, although no change in the log says so."""
        if (self.oid, self.key) != (earlier.oid, earlier.key):
            return True
        before = {column.number: column for column in earlier.columns}
        added = [column for column in self.columns if column.number not in before]
        kept = [(before[column.number], column) for column in self.columns if column.number in before]
        written_anew = self.files != earlier.files
        return (
            any(column.filled or written_anew for column in added)
            or any(_other_values(was, now, written_anew) for was, now in kept)
            or self._names_mislead(earlier, added, kept)
        )

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
    if was.type != now.type and not {was.type, now.type} <= _SAME_TEXT:
        # Some types share their bytes, and are not written anew, though they mean something else.
        return True
    return written_anew and (was.type, was.typmod) != (now.type, now.typmod)


def fingerprints(connection: Connection, found: Sequence[Found]) -> dict[str, Fingerprint]:
    """Those of tables, by their spelled names."""
    oids = [one.oid for one in found]
    keys = keys_of(connection, found)
    columns: dict[int, list[ColumnPrint]] = defaultdict(list)
    for oid, *row in connection.execute(_COLUMNS, {"oids": oids}).fetchall():
        columns[oid].append(ColumnPrint(*row))
    files = dict(connection.execute(_FILES, (oids,)).fetchall())
    return {
        one.table.spelled(): Fingerprint(
            one.oid,
            files.get(one.oid, ""),
            keys[one.oid],
            tuple(columns[one.oid]),
        )
        for one in found
    }
