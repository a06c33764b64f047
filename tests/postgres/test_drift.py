"""Tables that are changed and changed back between two looks at the catalog: only the stream shows the time in between."""

import msgspec
import pytest

from changeling.postgres import catalog
from changeling.postgres.fingerprint import fingerprints
from changeling.postgres.relation_messages import Description, from_texts, to_texts
from changeling.postgres.slot import parse_lsn
from changeling.postgres.table_drift import Drift, SnapshottedTable
from tests.postgres.replication import Replication
from tests.postgres.server import Database

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, a text, b text, n int NOT NULL)",
    "CREATE UNIQUE INDEX t_n ON t (n)",
    "INSERT INTO t VALUES (1, 'a', 'b', 1)",
    "CREATE TABLE root (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE root_1 PARTITION OF root FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE root_2 PARTITION OF root FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id)",
    "CREATE TABLE root_3 PARTITION OF root_2 FOR VALUES FROM (10) TO (20)",
    "INSERT INTO root VALUES (1, 'x'), (11, 'y')",
    "CREATE TABLE filled (id int PRIMARY KEY, v text)",
    "INSERT INTO filled VALUES (25, 'came along')",
    "CREATE SCHEMA other",
    "CREATE TYPE mood AS ENUM ('sad')",
)
ATTACH = "ALTER TABLE root ATTACH PARTITION filled FOR VALUES FROM (20) TO (30)"
DETACH = "ALTER TABLE root DETACH PARTITION filled"


@pytest.fixture
def stream(emptied: Database) -> Replication:
    emptied.execute(*TABLES)
    return Replication(emptied, "FOR TABLE t, root, filled WITH (publish_via_partition_root = true)")


def snapshotted(database: Database) -> dict[str, SnapshottedTable]:
    found = catalog.tables(database.connection, ["t", "root", "filled"])
    prints = fingerprints(database.connection, found, ["p"])
    ((place,),) = database.rows("SELECT pg_current_wal_insert_lsn()::text")
    return {
        one.table.name: SnapshottedTable("public", one.table.name, prints[one.table.spelled()], parse_lsn(place))
        for one in found
    }


def described(stream: Replication, chunk: int = 1000) -> list[Description]:
    output, messages = stream.output(), stream.messages()
    for start in range(0, len(messages), chunk):
        output.decode(messages[start : start + chunk])
    return sorted(output.described)


def outdated(stream: Replication, *statements: str) -> tuple[list[str], list[str]]:
    """The tables that are outdated by the catalog and those that are by what the stream described."""
    before = snapshotted(stream.database)
    stream.database.execute(*statements)
    now = snapshotted(stream.database)
    drift = Drift()
    drift.note(described(stream), list(before.values()))
    # It is kept as JSON from one run to the next, and noting the same again changes nothing.
    kept = msgspec.json.decode(msgspec.json.encode(drift), type=Drift)
    kept.note(described(stream, 1), list(before.values()))
    assert kept == drift
    by_catalog = [name for name in now if now[name].fingerprint.outdates(before[name].fingerprint)]
    by_stream = [name for name in now if drift.outdates(before[name], now[name].fingerprint)]
    # Once they are taken again, they are as they should be.
    drift.note(described(stream), list(now.values()))
    assert drift == Drift()
    assert not any(now[name].fingerprint.outdates(now[name].fingerprint) for name in now)
    return by_catalog, by_stream


RETURN = [
    ([ATTACH, "INSERT INTO root VALUES (26, 'new')", DETACH], ["filled", "root"]),
    ([ATTACH, "UPDATE root SET v = 'other' WHERE id = 25", DETACH], ["filled", "root"]),
    ([ATTACH, "DELETE FROM filled", DETACH], ["filled", "root"]),
    (
        [
            "CREATE TABLE root_4 PARTITION OF root FOR VALUES FROM (30) TO (40)",
            "INSERT INTO root VALUES (31, 'z')",
            "DROP TABLE root_4",
        ],
        ["root"],
    ),
    (
        [
            "CREATE TABLE root_4 PARTITION OF root_2 DEFAULT",
            "INSERT INTO root VALUES (2, 'z')",
            "ALTER TABLE root_2 DETACH PARTITION root_4",
        ],
        [],
    ),
    (
        [
            "BEGIN",
            "CREATE TABLE root_4 PARTITION OF root FOR VALUES FROM (30) TO (40)",
            "INSERT INTO root VALUES (31, 'z')",
            "DROP TABLE root_4",
            "COMMIT",
        ],
        ["root"],
    ),
    (["ALTER TABLE t RENAME TO u", "INSERT INTO u VALUES (2, '', '', 2)", "ALTER TABLE u RENAME TO t"], ["t"]),
    (["ALTER TABLE t RENAME TO u", "TRUNCATE u", "ALTER TABLE u RENAME TO t"], ["t"]),
    (
        ["ALTER TABLE t SET SCHEMA other", "DELETE FROM other.t", "ALTER TABLE other.t SET SCHEMA public"],
        ["t"],
    ),
    (
        ["ALTER SCHEMA public RENAME TO p", "DELETE FROM p.t", "ALTER SCHEMA p RENAME TO public"],
        ["t"],
    ),
    (
        [
            "ALTER TABLE t REPLICA IDENTITY USING INDEX t_n",
            "UPDATE t SET id = 7",
            "ALTER TABLE t REPLICA IDENTITY DEFAULT",
        ],
        ["t"],
    ),
    (
        [
            "ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME c TO b",
            "UPDATE t SET a = 'z'",
            "ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME c TO b",
        ],
        ["t"],
    ),
    (
        [
            "ALTER TABLE t ALTER n TYPE oid USING n::oid",
            "UPDATE t SET a = 'z'",
            "ALTER TABLE t ALTER n TYPE int USING n::int",
        ],
        ["t"],
    ),
    (
        ["ALTER TABLE root_1 REPLICA IDENTITY FULL", "DELETE FROM root", "ALTER TABLE root_1 REPLICA IDENTITY DEFAULT"],
        [],
    ),
    (["ALTER TABLE t REPLICA IDENTITY FULL", "DELETE FROM t", "ALTER TABLE t REPLICA IDENTITY DEFAULT"], []),
    (["ALTER TABLE t RENAME TO u", "ALTER TABLE u RENAME TO t", "DELETE FROM t"], []),
    (
        [
            "ALTER TABLE t ADD x int",
            "UPDATE t SET x = 5",
            "ALTER TABLE t DROP x",
            "INSERT INTO t VALUES (2, '', '', 2)",
        ],
        [],
    ),
    (["ALTER TABLE t RENAME a TO c", "UPDATE t SET c = 'z'", "ALTER TABLE t RENAME c TO a"], []),
    (["ALTER TABLE t ALTER a TYPE varchar(50)", "UPDATE t SET a = 'z'", "ALTER TABLE t ALTER a TYPE text"], []),
    (["CREATE TABLE root_4 PARTITION OF root FOR VALUES FROM (30) TO (40)", "INSERT INTO root VALUES (31, 'z')"], []),
    (["BEGIN; TRUNCATE t, root; INSERT INTO root VALUES (3, 'z'); COMMIT", "DELETE FROM root"], []),
    ([ATTACH, DETACH], []),
]


@pytest.mark.parametrize(("statements", "expected"), RETURN, ids=lambda given: "; ".join(given)[:90])
def test_what_the_stream_described_otherwise_is_outdated(
    stream: Replication, statements: list[str], expected: list[str]
) -> None:
    _, by_stream = outdated(stream, *statements)
    assert by_stream == expected


AWAY = [
    (
        [
            "ALTER TABLE root DETACH PARTITION root_1",
            "DELETE FROM root_1",
            "ALTER TABLE root ATTACH PARTITION root_1 FOR VALUES FROM (0) TO (10)",
        ],
        ["root"],
    ),
    (
        [
            "ALTER TABLE root DETACH PARTITION root_2",
            "DELETE FROM root_2",
            "ALTER TABLE root ATTACH PARTITION root_2 FOR VALUES FROM (10) TO (20)",
        ],
        ["root"],
    ),
    ([ATTACH, "TRUNCATE filled", DETACH], ["filled"]),
    (
        [
            "CREATE TABLE root_4 PARTITION OF root FOR VALUES FROM (30) TO (40)",
            "INSERT INTO root VALUES (31, 'z')",
            "TRUNCATE root_4",
        ],
        ["root"],
    ),
    (["ALTER PUBLICATION p DROP TABLE t", "DELETE FROM t", "ALTER PUBLICATION p ADD TABLE t"], ["t"]),
    (
        [
            "ALTER TABLE t REPLICA IDENTITY FULL, DROP CONSTRAINT t_pkey",
            "DELETE FROM t",
            "ALTER TABLE t ADD PRIMARY KEY (id)",
        ],
        ["t"],
    ),
    (["REINDEX TABLE CONCURRENTLY t"], []),
]


@pytest.mark.parametrize(("statements", "expected"), AWAY, ids=lambda given: "; ".join(given)[:90])
def test_what_the_catalog_shows_to_have_been_otherwise_is_outdated(
    stream: Replication, statements: list[str], expected: list[str]
) -> None:
    by_catalog, _ = outdated(stream, *statements)
    assert by_catalog == expected


@pytest.mark.parametrize(
    ("publication", "statements"),
    [
        ("FOR ALL TABLES", ["ALTER TABLE t SET UNLOGGED", "DELETE FROM t", "ALTER TABLE t SET LOGGED"]),
        (
            "FOR TABLES IN SCHEMA public",
            ["ALTER TABLE t SET SCHEMA other", "DELETE FROM other.t", "ALTER TABLE other.t SET SCHEMA public"],
        ),
        (
            "FOR TABLES IN SCHEMA public",
            [
                "ALTER PUBLICATION p DROP TABLES IN SCHEMA public",
                "DELETE FROM t",
                "ALTER PUBLICATION p ADD TABLES IN SCHEMA public",
            ],
        ),
    ],
)
def test_a_table_that_left_a_publication_without_a_place_of_its_own_there_is_outdated(
    emptied: Database, publication: str, statements: list[str]
) -> None:
    emptied.execute(*TABLES, f"CREATE PUBLICATION p {publication}")
    before = snapshotted(emptied)
    emptied.execute("ANALYZE t", "CREATE INDEX i ON t (a)", "INSERT INTO t VALUES (2, '', '', 2)", "VACUUM t")
    assert not snapshotted(emptied)["t"].fingerprint.outdates(before["t"].fingerprint)
    emptied.execute(*statements)
    assert snapshotted(emptied)["t"].fingerprint.outdates(before["t"].fingerprint)


def test_descriptions_are_found_wherever_chunks_end(stream: Replication) -> None:
    stream.database.execute(
        "BEGIN; INSERT INTO root VALUES (2, 'a'), (12, 'b'); INSERT INTO t VALUES (3, '', '', 3); COMMIT",
        "TRUNCATE t, root",
    )
    oids = dict(
        stream.database.rows("SELECT relname, oid FROM pg_class WHERE relname IN ('t', 'root', 'root_1', 'root_3')")
    )
    whole = described(stream)
    assert [(one.oid, one.root) for one in whole] == sorted(
        [(oids["root"], 0), (oids["root_1"], oids["root"]), (oids["root_3"], oids["root"]), (oids["t"], 0)]
    )
    assert all(described(stream, size) == whole for size in (1, 2, 3, 5))
    assert from_texts(to_texts(whole)) == whole
    (table,) = [one for one in whole if one.oid == oids["t"]]
    assert (table.schema, table.name, table.identity, table.key) == ("public", "t", "d", ("id",))
    assert table.columns == (("id", 23), ("a", 25), ("b", 25), ("n", 23))
