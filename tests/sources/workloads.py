"""Writers of a database: random transactions over several tables, in several connections at once."""

import random
import threading
from contextlib import suppress

import psycopg

TABLES = (
    "CREATE TABLE keyed (id int PRIMARY KEY, v text, n numeric(14,3))",
    "CREATE TABLE pairs (a int, b text, v text, at timestamptz, PRIMARY KEY (a, b))",
    "CREATE TABLE bag (a int, b text)",
    "ALTER TABLE bag REPLICA IDENTITY FULL",
    "CREATE TABLE parts (id int, region text, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region)",
    "CREATE TABLE parts_eu PARTITION OF parts FOR VALUES IN ('eu')",
    "CREATE TABLE parts_us PARTITION OF parts FOR VALUES IN ('us')",
    "CREATE TABLE whole (id int PRIMARY KEY, v text, big text)",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
)
NAMES = ("keyed", "pairs", "bag", "parts", "whole")


class Writer:
    """Random changes by one connection. Ids are few, so that writers meet."""

    def __init__(self, url: str, seed: int, truncates: float = 0.01) -> None:
        """`truncates`: the part of all changes that are truncates."""
        self._url, self._random, self._truncates = url, random.Random(seed), truncates

    def run(self, transactions: int) -> None:
        """So many transactions; some are rolled back, and what the server refuses is left out."""
        with psycopg.connect(self._url, autocommit=False) as connection:
            for _ in range(transactions):
                try:
                    for _ in range(self._random.randint(1, 6)):
                        self._step(connection)
                    connection.rollback() if self._random.random() < 0.15 else connection.commit()
                except psycopg.errors.Error:
                    connection.rollback()

    def _step(self, connection: psycopg.Connection) -> None:
        if self._random.random() < 0.2:
            # A savepoint that is rolled back, with something in it.
            with suppress(psycopg.Rollback), connection.transaction() as inner:
                self._change(connection)
                raise psycopg.Rollback(inner)
        with suppress(psycopg.errors.UniqueViolation), connection.transaction():
            self._change(connection)

    def _change(self, connection: psycopg.Connection) -> None:
        pick = self._random.choice
        number, other, text = self._random.randint(1, 40), self._random.randint(1, 40), self._text()
        statements = [
            ("INSERT INTO keyed VALUES (%s, %s, %s)", (number, text, self._random.randint(-(10**9), 10**9) / 1000)),
            ("UPDATE keyed SET v = %s WHERE id %% 5 = %s", (text, number % 5)),
            ("UPDATE keyed SET id = %s WHERE id = %s", (other, number)),
            ("DELETE FROM keyed WHERE id = %s", (number,)),
            ("INSERT INTO pairs VALUES (%s, %s, %s, clock_timestamp())", (number % 7, text, text)),
            ("UPDATE pairs SET v = %s, at = NULL WHERE a = %s", (text, number % 7)),
            ("DELETE FROM pairs WHERE a = %s AND b = %s", (number % 7, text)),
            ("INSERT INTO bag VALUES (%s, %s), (%s, %s)", (number % 3, text, number % 3, text)),
            ("UPDATE bag SET b = %s WHERE a = %s", (text, number % 3)),
            ("DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag)", ()),
            ("INSERT INTO parts VALUES (%s, %s, %s)", (number, pick(("eu", "us")), text)),
            ("UPDATE parts SET region = %s WHERE id = %s", (pick(("eu", "us")), number)),
            ("DELETE FROM parts WHERE id = %s", (number,)),
            ("INSERT INTO whole VALUES (%s, %s, repeat(%s, 4000))", (number, text, "long" + text)),
            ("UPDATE whole SET v = %s WHERE id = %s", (text, number)),
            ("DELETE FROM whole WHERE id = %s", (number,)),
        ]
        if self._random.random() < self._truncates:
            connection.execute(f"TRUNCATE {pick(('keyed', 'bag', 'pairs'))}")
            return
        connection.execute(*pick(statements))

    def _text(self) -> str:
        return self._random.choice(("", "a", 'quo"te', "back\\slash", "tab\t", "ünï", "line\nbreak", "{1,2}", "null"))


def write_at_once(url: str, seed: int, writers: int, transactions: int) -> list[threading.Thread]:
    """Writers that have begun, each in a thread of its own."""
    threads = [
        threading.Thread(target=Writer(url, seed * 100 + number).run, args=(transactions,)) for number in range(writers)
    ]
    for thread in threads:
        thread.start()
    return threads
