"""A small shop in PostgreSQL, and people who use it: orders are placed, changed and deleted, in transactions of several tables."""

import random
import threading
from dataclasses import dataclass, field

import psycopg

TABLES = """
CREATE TABLE customers (id bigint PRIMARY KEY, name text NOT NULL, email text, credit numeric(12,2) DEFAULT 0,
                        joined timestamptz NOT NULL);
CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint NOT NULL, status text NOT NULL, placed timestamptz NOT NULL,
                     notes jsonb);
CREATE TABLE items (order_id bigint, line int, product text NOT NULL, price numeric(10,2) NOT NULL, pieces int NOT NULL,
                    PRIMARY KEY (order_id, line));
"""
CUSTOMERS, ORDERS = 10_000, 20_000
PRODUCTS = ("kettle", "lamp", "chair", "teapot", "rug", "mirror", "clock")
FILL = f"""
INSERT INTO customers SELECT g, 'Customer ' || g, 'c' || g || '@example.com', g % 500, now() - g * interval '1 minute'
FROM generate_series(1, {CUSTOMERS}) g;
INSERT INTO orders SELECT g, 1 + g * 7919 % {CUSTOMERS}, 'placed', now() - g * interval '10 seconds',
  jsonb_build_object('gift', g % 3 = 0) FROM generate_series(1, {ORDERS}) g;
INSERT INTO items SELECT g, 1, (ARRAY['kettle','lamp','chair','teapot'])[1 + g % 4], 5 + g % 90, 1 + g % 3
FROM generate_series(1, {ORDERS}) g;
"""


@dataclass
class Done:
    """What the people did."""

    transactions: int = 0
    orders: list[int] = field(default_factory=list)


def fill(url: str) -> None:
    """Creates the tables and the rows that exist before the capture."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLES)
        connection.execute(FILL)


def people(url: str, stop: threading.Event, done: Done, seed: int = 7) -> None:
    """Orders, updates and deletes, until `stop` is set; a customer gets another number, and a column is added."""
    choose = random.Random(seed)
    number = 1_000_000
    with psycopg.connect(url) as connection:
        while not stop.is_set():
            number += 1
            with connection.transaction():
                connection.execute(
                    "INSERT INTO orders VALUES (%s, %s, 'placed', clock_timestamp(), %s)",
                    (number, choose.randint(1, CUSTOMERS), '{"gift": false}'),
                )
                for line in range(1, choose.randint(2, 4)):
                    price = f"{choose.uniform(5, 90):.2f}"
                    connection.execute(
                        "INSERT INTO items VALUES (%s, %s, %s, %s, %s)",
                        (number, line, choose.choice(PRODUCTS), price, choose.randint(1, 4)),
                    )
            _something_else(connection, choose, number)
            done.transactions += 2
            done.orders.append(number)
            if done.transactions == 200:
                connection.execute("UPDATE customers SET id = 500001 WHERE id = 42")
                connection.execute("ALTER TABLE customers ADD COLUMN city text DEFAULT 'unknown'")
            connection.commit()
            stop.wait(0.004)


def _something_else(connection: psycopg.Connection, choose: random.Random, number: int) -> None:
    what = choose.random()
    with connection.transaction():
        if what < 0.4:
            connection.execute(
                "UPDATE orders SET status = %s WHERE id = %s",
                (choose.choice(("paid", "sent", "back")), choose.randint(1, ORDERS)),
            )
        elif what < 0.6:
            gone = choose.randint(1, ORDERS)
            connection.execute("DELETE FROM items WHERE order_id = %s", (gone,))
            connection.execute("DELETE FROM orders WHERE id = %s", (gone,))
        elif what < 0.9:
            connection.execute(
                "UPDATE customers SET credit = credit + %s WHERE id = %s",
                (choose.randint(-20, 60), choose.randint(1, CUSTOMERS)),
            )
        else:
            connection.execute("UPDATE items SET pieces = pieces + 1 WHERE order_id = %s", (number,))
