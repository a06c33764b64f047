"""Tables of PostgreSQL whose every change is also written down by triggers: what each row went through, as its database recorded it."""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from tests.postgres.server import Database
from tests.sources.workloads import Writer

State = tuple[Any, ...] | None
"""The values of a row without its id; None where it is gone."""
Lives = dict[int, list[State]]
"""The states that each row went through, by its id."""

_PAUSE = 0.5
_TRUNCATES = 0.01
_AUDIT = """
CREATE SCHEMA audit;
CREATE TABLE audit.states (number bigserial PRIMARY KEY, name text, id bigint, state text[]);
CREATE FUNCTION audit.row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR TG_OP = 'UPDATE' AND OLD.id <> NEW.id THEN
        INSERT INTO audit.states (name, id) VALUES (TG_TABLE_NAME, OLD.id);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO audit.states (name, id, state)
        VALUES (TG_TABLE_NAME, NEW.id, (SELECT array_agg(to_jsonb(NEW) ->> one) FROM unnest(TG_ARGV) one));
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION audit.truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO audit.states (name, id) SELECT %L, id FROM %I', TG_TABLE_NAME, TG_TABLE_NAME);
    RETURN NULL;
END $$;
"""


def audit(database: Database, table: str, columns: Sequence[str]) -> None:
    """Writes down from now on what the rows of a table go through, in these columns. The key of the table is `id`."""
    if not database.rows("SELECT FROM pg_namespace WHERE nspname = 'audit'"):
        database.execute(_AUDIT)
    database.execute(
        f"CREATE TRIGGER audit_row AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW "
        f"EXECUTE FUNCTION audit.row({', '.join(columns)})",
        f"CREATE TRIGGER audit_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION audit.truncate()",
    )


def audited(database: Database, table: str) -> Lives:
    """What the rows of a table went through. Changes of one row wait for each other, so their numbers are in order."""
    found: Lives = defaultdict(list)
    for key, state in database.rows(f"SELECT id, state FROM audit.states WHERE name = '{table}' ORDER BY number"):
        found[key].append(None if state is None else tuple(state))
    return dict(found)


@contextmanager
def under_load(url: str, seed: int, *statements: str) -> Iterator[None]:
    """Random transactions on all tables of the workload all the time, and these statements with a random number each."""
    stop = threading.Event()

    def change_all() -> None:
        for number in range(1_000_000):
            if stop.is_set():
                return
            Writer(url, seed * 1_000_000 + number, _TRUNCATES).run(10)
            time.sleep(_PAUSE)

    def change_others() -> None:
        chance = random.Random(seed)
        with psycopg.connect(url, autocommit=True) as connection:
            while not stop.is_set():
                for statement in statements:
                    connection.execute(statement.format(chance.randrange(10**6)))
                time.sleep(_PAUSE)

    threads = [threading.Thread(target=change_all), threading.Thread(target=change_others)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
