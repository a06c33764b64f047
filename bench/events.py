"""The data: XTDB events of two tables, the same bytes at every run."""

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

DATA = Path(__file__).parent / "data"
FIRST_TX = 12_345
FIRST_MS = 1_703_505_330_123

_quote = msgspec.json.encode
_FIRST_NAMES = ("John", "Jane", "Amira", "Søren", "Mei", "Ivan", "Chloé", "Tariq")
_LAST_NAMES = ("Doe", "Smith", "Haddad", "Kierkegaard", "Lin", "Petrov", "Dubois", "Aziz")
_STATUSES = ("new", "paid", "packed", "shipped", "completed")


def events(count: int, seed: int = 7, inserts: float = 0.6, deletes: float = 0.1) -> Iterator[bytes]:
    """That many events, one a line: two thirds of users, one third of orders, mixed c, u and d.

    One transaction contains one to three events. `inserts` and `deletes` are the shares of them among all events.
    """
    random_ = random.Random(seed)
    alive: dict[str, dict[str, object]] = {}
    names: list[str] = []
    tx, place, size = FIRST_TX, 0, 1
    for number in range(count):
        if place == size:
            tx, place, size = tx + 1, 0, random_.choice((1, 1, 1, 2, 3))
        draw = random_.random()
        if draw < inserts or not names:
            name, before = _new_name(number, random_), None
            after: dict[str, object] | None = _document(name, random_)
        else:
            at = random_.randrange(len(names))
            name = names[at]
            before = alive[name]
            after = None if draw < inserts + deletes else _patched(name, before, random_)
            if after is None:
                names[at] = names[-1]
                names.pop()
                del alive[name]
        if after is not None:
            if before is None:
                names.append(name)
            alive[name] = after
            if len(names) > 50_000:
                del alive[names.pop(0)]
        table = "users" if name.startswith("user") else "orders"
        yield event(table, before, after, tx, place)
        place += 1


def _new_name(number: int, random_: random.Random) -> str:
    return f"user-{number}" if random_.random() < 2 / 3 else f"order-{number}"


def _document(name: str, random_: random.Random) -> dict[str, object]:
    if name.startswith("user"):
        first, last = random_.choice(_FIRST_NAMES), random_.choice(_LAST_NAMES)
        return {
            "_id": name,
            "name": f"{first} {last}",
            "email": f"{name}@example.com",
            "created_at": _timestamp(random_),
            "age": random_.randrange(18, 90),
            "is_active": random_.random() < 0.8,
            "balance": f"{random_.randrange(100_000) / 100:.2f}",
            "uuid": f"{random_.getrandbits(32):08x}-e29b-41d4-a716-446655440000",
        }
    return {
        "_id": name,
        "customer_id": f"user-{random_.randrange(100_000)}",
        "order_date": _timestamp(random_),
        "processing_duration": "PT2H30M",
        "total_amount": f"{random_.randrange(1_000_000) / 100:.2f}",
        "status": random_.choice(_STATUSES),
        "items": [
            {"product_id": f"prod-{random_.randrange(999)}", "quantity": random_.randrange(1, 9), "price": "25.50"}
        ],
    }


def _patched(name: str, document: dict[str, object], random_: random.Random) -> dict[str, object]:
    if name.startswith("user"):
        return {**document, "age": random_.randrange(18, 90), "last_updated": _timestamp(random_)}
    return {**document, "status": random_.choice(_STATUSES)}


def _timestamp(random_: random.Random) -> str:
    return f"2023-12-{random_.randrange(1, 29):02d}T10:15:{random_.randrange(60):02d}.{random_.randrange(1000):03d}Z"


def commit_ms(tx: int) -> int:
    """When a transaction was committed, in milliseconds."""
    return FIRST_MS + (tx - FIRST_TX) * 7


def event(table: str, before: dict[str, object] | None, after: dict[str, object] | None, tx: int, place: int) -> bytes:
    """One event of a document."""
    committed = commit_ms(tx)
    letter = "c" if before is None else "d" if after is None else "u"
    return _quote(
        {
            "before": None if before is None else _quote(before).decode(),
            "after": None if after is None else _quote(after).decode(),
            "source": {
                "version": "3.0.0",
                "connector": "xtdb-cdc",
                "name": "xtdb-node-1",
                "ts_ms": committed,
                "snapshot": None,
                "db": "mydb",
                "table": table,
                "tx_id": tx,
                "system_time": committed,
            },
            "op": letter,
            "ts_ms": committed,
            "transaction": {"id": str(tx), "total_order": tx, "data_collection_order": place},
        }
    )


def file_of(count: int) -> Path:
    """A file of that many events, created once; the name has the count."""
    return _file(DATA / f"xtdb-{count}.jsonl", events(count))


def updates_file_of(count: int) -> Path:
    """The same kind of events, most of them updates: each document occurs seven times."""
    return _file(DATA / f"xtdb-updates-{count}.jsonl", events(count, inserts=0.15, deletes=0.05))


def debezium_file_of(count: int) -> Path:
    """The same changes as Debezium's PostgreSQL connector would write them, without the schema part."""
    return _file(DATA / f"debezium-{count}.jsonl", map(_as_debezium, events(count)))


def _as_debezium(event: bytes) -> bytes:
    change = msgspec.json.decode(event)
    for side in ("before", "after"):
        change[side] = None if change[side] is None else msgspec.json.decode(change[side])
    source, order = change["source"], change["transaction"]["data_collection_order"]
    lsn = source["tx_id"] * 1_000 + order
    change["source"] = {
        "version": "3.6.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": source["ts_ms"],
        "snapshot": "false",
        "db": source["db"],
        "sequence": f'["{source["tx_id"] * 1_000}","{lsn}"]',
        "schema": "public",
        "table": source["table"],
        "txId": source["tx_id"],
        "lsn": lsn,
    }
    return _quote(change)


def _file(path: Path, lines: Iterable[bytes]) -> Path:
    if path.exists():
        return path
    DATA.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("wb", buffering=1 << 20) as out:
        for line in lines:
            out.write(line + b"\n")
    part.rename(path)
    return path
