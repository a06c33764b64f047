"""One list of changes in every dialect, and for each dialect a mistake that the pipeline file can mend.

A source is written as its user first wrote it, so that most records are read; and as it should be, so that all of them are.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import changeling
from changeling.conformance.cases import TIME, batch
from changeling.model.change import Change, Transaction
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position
from changeling.model.table import Column, TableName, TableSchema

Row = dict[str, Any]
COLUMNS = {"_id": "string", "n": "int64", "note": "string"}
ORDERS = TableName(None, None, "orders")
SCHEMA = TableSchema(tuple(Column(name, kind) for name, kind in COLUMNS.items()), ("_id",))
NUMBER = 7_000
"""By which Transferia's records name the schema that nobody has declared yet."""


def changes(count: int) -> Iterator[Change]:
    """Row after row is inserted, updated and deleted, each in a transaction of its own."""
    for number in range(count):
        op = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)[number % 3]
        row = number // 3
        change = Change(
            op=op,
            table=ORDERS,
            key=f'{{"_id":"o-{row}"}}',
            schema=SCHEMA.to_json(),
            position=position(1_000 + number, 0),
            commit_time=TIME + number * 1_000_000,
            transaction=Transaction(str(1_000 + number), 0, 1_000 + number),
        )
        if op is not Operation.INSERT:
            change.before, change.before_image = _image(row, number - 1), Image.FULL
        if op is not Operation.DELETE:
            change.after, change.after_image = _image(row, number), Image.FULL
        yield change


def _image(row: int, number: int) -> str:
    return f'{{"_id":"o-{row}","n":{number},"note":"Zoë says \\"{number}\\""}}'


@dataclass(frozen=True)
class Dialect:
    """A dialect, the settings of its source at first and after the fix, and how a record needs the fix."""

    format: str
    spoilt: Callable[[Row], Row]
    """The record as it should not be: only the mended source reads it."""
    reason: str
    """Why the source does not read it at first."""
    first: dict[str, Any] = field(default_factory=dict)
    mended: dict[str, Any] = field(default_factory=dict)
    rules: tuple[dict[str, Any], ...] = ()
    mended_rules: tuple[dict[str, Any], ...] = ()
    carrier: str = "plain"
    writing: dict[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return self.format.replace("-", "_")

    def setting(self, mended: bool) -> dict[str, Any]:
        """The source in the pipeline file."""
        path = {"name": self.source, "type": "files", "path": f"in/{self.source}/*", "carrier": self.carrier}
        return {**path, "format": self.format, **(self.mended if mended else self.first)}

    def tables(self, mended: bool) -> list[dict[str, Any]]:
        """The rules for its tables in the pipeline file."""
        return [{**rule, "source": self.source} for rule in (self.mended_rules if mended else self.rules)]

    def reading(self) -> dict[str, Any]:
        """The options of `decode` to read all records."""
        carried = {name: value for name, value in self.mended.items() if name != "options"}
        schemas = tuple(
            TableSchema(
                tuple(Column(name, kind) for name, kind in rule.get("columns", {}).items()),
                tuple(rule["key"]),
                TableName.parse(rule["name"]),
                rule.get("id"),
            )
            for rule in self.mended_rules
        )
        return {**carried, **self.mended.get("options", {}), "schemas": schemas}

    def records(self, count: int) -> list[Row]:
        """So many records, as this dialect writes the shared changes."""
        made, rejects = changeling.encode(batch(list(changes(count))), self.format, drop="all", **self.writing)
        assert rejects.num_rows == 0, rejects.slice(0, 3).to_pylist()
        # Messages without a value have no place in plain files.
        rows = [row for row in made.to_pylist() if row["value"] is not None]
        names = ("value", "headers") if self.carrier == "plain" else ("value", "key", "topic")
        return [
            {"key": None, "topic": None, "headers": None, **{name: row[name] for name in names}} for row in rows[:count]
        ]


def _replaced(old: str, new: str) -> Callable[[Row], Row]:
    """The record with a part of its text replaced, which must be there."""

    def spoil(row: Row) -> Row:
        assert old.encode() in row["value"], row["value"]
        return {**row, "value": row["value"].replace(old.encode(), new.encode())}

    return spoil


def _bare_row(row: Row) -> Row:
    """The row of an Arcion record alone, as in files of a snapshot."""
    record = json.loads(row["value"])
    image = record["before"] if record["opType"] == "D" else record["after"]
    return {**row, "value": json.dumps(image).encode()}


def _blanks_around_the_letter(row: Row) -> Row:
    """An update, whatever it was, with blanks around its letter."""
    value = row["value"]
    for letter in (b",I,", b",U,", b",D,"):
        value = value.replace(letter, b", U ,")
    return {**row, "value": value}


def _by_number(row: Row) -> Row:
    record = json.loads(row["value"])
    return {**row, "value": json.dumps({**record, "table_schema": {"SchemaID": NUMBER}}).encode()}


def _without_keys(row: Row) -> Row:
    record = json.loads(row["value"])
    del record["dynamodb"]["Keys"]
    return {**row, "value": json.dumps(record).encode()}


_KEY = {"key": ["_id"]}
_ORDERS = {"name": "orders", **_KEY}
_RETURNS = {"name": "returns", **_KEY}
_BARE = "a bare row names no table; say which with --table"
_NAMELESS = "the event names no table: source.table is missing; say which with --table"

DIALECTS = (
    Dialect(
        "arcion-csv",
        _blanks_around_the_letter,
        "unknown opType ' U ': Arcion has I, U and D",
        mended={"options": {"trim": True}},
    ),
    Dialect("arcion-json", _bare_row, _BARE, _KEY, {**_KEY, "table": "shop.orders"}),
    Dialect("arcion-native", _bare_row, _BARE, _KEY, {**_KEY, "table": "shop.orders"}),
    Dialect(
        "canal",
        _replaced('"table":"orders"', '"table":null'),
        "the message names no table; say which with --table",
        mended={"table": "shop.orders"},
    ),
    Dialect(
        "dataworks",
        _replaced('"_source_table_":"orders"', '"_source_table_":"returns"'),
        "the row lacks key column 'number'",
        rules=(_ORDERS, {"name": "returns", "key": ["number"]}),
        mended_rules=(_ORDERS, _RETURNS),
        writing={"source_table": True},
    ),
    Dialect(
        "dataworks-message",
        _replaced('"tableName":"orders"', '"tableName":null'),
        "the message names no table: `schema.source.tableName` is missing; say which with --table",
        mended={"table": "shop.orders"},
    ),
    Dialect("debezium-json", _replaced('"table":"orders",', ""), _NAMELESS, _KEY, {**_KEY, "table": "shop.orders"}),
    Dialect(
        "transferia",
        _by_number,
        f'no schema has the id {NUMBER}: give it with --schema FILE, an object with "id": {NUMBER} and its columns '
        f"(in a pipeline: under `tables:` with `id: {NUMBER}`)",
        mended_rules=({"name": "orders", "id": NUMBER, "columns": COLUMNS, **_KEY},),
    ),
    Dialect("xtdb", _replaced('"table":"orders",', ""), _NAMELESS, mended={"table": "shop.orders"}),
    Dialect(
        "ydb-debezium",
        lambda row: {**row, "topic": "feed"},
        "the record names no table, and neither does a topic path/to/table/feed; give --table",
        mended={"table": "orders"},
        carrier="kcat",
    ),
    Dialect(
        "ydb-dynamodb",
        _without_keys,
        "the record has no `Keys`, and no image shows the key columns number",
        {"table": "orders", "key": ["number"]},
        {"table": "orders", **_KEY},
    ),
    Dialect(
        "ydb-json",
        lambda row: {**row, "topic": "returns/feed"},
        "nothing names the key columns of table returns; give --key, or a schema with a key",
        rules=(_ORDERS,),
        mended_rules=(_ORDERS, _RETURNS),
        carrier="kcat",
    ),
)
