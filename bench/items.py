"""A table of eight columns in a PostgreSQL server of its own: filled at once, or by many small transactions."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from demo.embedded_postgres import EmbeddedPostgres

TRANSACTION = 100
"""Changes in each transaction: 60 inserts, 30 updates, 10 deletes, mixed."""
_ROUND = 10
_TABLE = """
CREATE TABLE items (
    id bigint PRIMARY KEY, name text, email text, amount numeric(12,2), n int, created timestamptz, flag boolean, note text
)
"""
_ROWS = """
INSERT INTO items
SELECT id, 'Item ' || id, 'someone.' || id || '@example.com', (id * 37 % 1000000000)::numeric / 100, id % 1000,
       timestamptz '2024-01-01 00:00+00' + id * interval '1.000123 s', id % 3 = 0,
       CASE WHEN id % 10 > 0 THEN repeat(md5(id::text), 1 + (id % 3)::int) END
FROM generate_series({first}, {last}) AS id
"""
# Rows are updated and deleted 20 rounds, or two transactions, after their insert; the first ones have other rows to delete.
_CHANGES = f"""
DO $$
DECLARE
    old bigint;
BEGIN
    FOR round IN 0 .. {{rounds}} - 1 LOOP
        old := 6 * greatest(0, round - 20);
        {_ROWS.format(first="6 * round + 1", last="6 * round + 6")};
        UPDATE items SET amount = amount + 1.25, n = n + 1, note = 'changed in ' || round WHERE id BETWEEN old + 2 AND old + 4;
        DELETE FROM items WHERE id = CASE WHEN round < 20 THEN 6 * round + 5 ELSE old + 1 END;
        IF (round + 1) % {TRANSACTION // _ROUND} = 0 THEN
            COMMIT;
        END IF;
    END LOOP;
END $$
"""
_SETTINGS = "autovacuum = off\n"


@dataclass(frozen=True)
class Items:
    """The server and the table in it."""

    server: EmbeddedPostgres
    folder: Path
    """A folder to work in."""
    connection: psycopg.Connection

    @property
    def pid(self) -> int:
        """The server's process id."""
        return int((self.server.folder / "postmaster.pid").read_text().split()[0])

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement.encode())

    def change(self, count: int) -> dict[str, int]:
        """`count` changes of the empty table, a multiple of those of a transaction; returns how many of each kind."""
        assert count % TRANSACTION == 0
        # Without statistics, PostgreSQL may choose a plan that scans the table, and keep it.
        self.execute("SET enable_seqscan = off", _CHANGES.format(rounds=count // _ROUND), "CHECKPOINT")
        return {"insert": count * 6 // 10, "update": count * 3 // 10, "delete": count // 10}

    def fill(self, count: int) -> None:
        """`count` rows, frozen: no reader has hint bits to set."""
        self.execute(_ROWS.format(first=1, last=count), "VACUUM (FREEZE, ANALYZE) items", "CHECKPOINT")


@contextmanager
def items() -> Iterator[Items]:
    """A server with the empty table. It is stopped, and its folder removed, in any case."""
    folder = Path(tempfile.mkdtemp(prefix="changeling-bench-"))
    server = EmbeddedPostgres(folder / "postgres", _SETTINGS)
    try:
        server.start()
        with psycopg.connect(server.url, autocommit=True) as connection:
            made = Items(server, folder, connection)
            made.execute(_TABLE)
            yield made
    finally:
        try:
            server.stop()
        except subprocess.TimeoutExpired:
            server.stop(hard=True)
        finally:
            shutil.rmtree(folder)
