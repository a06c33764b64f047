"""Records that carry their schema."""

import json
from typing import Any


def debezium(number: int, *, extra: bool = False, kind: str = "int32", table: str = "users") -> str:
    """An insert by Debezium's PostgreSQL connector; with `extra`, its table has one more column."""
    fields: list[dict[str, Any]] = [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "n", "type": kind, "optional": True},
    ]
    row: dict[str, Any] = {"id": number, "n": f"{number}" if kind == "string" else number}
    if extra:
        fields.append({"field": "note", "type": "string", "optional": True})
        row["note"] = f"note {number}"
    images = [
        {"field": side, "type": "struct", "optional": True, "fields": fields, "name": f"shop.public.{table}.Value"}
        for side in ("before", "after")
    ]
    payload = {
        "before": None,
        "after": row,
        "source": {
            "version": "3.0.0",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": 1_700_000_000_000 + number,
            "snapshot": "false",
            "db": "shop",
            "sequence": f'["{number * 10}","{number * 10 + 1}"]',
            "schema": "public",
            "table": table,
            "txId": number,
            "lsn": number * 10 + 1,
        },
        "op": "c",
        "ts_ms": 1_700_000_000_500 + number,
    }
    return json.dumps({"schema": {"type": "struct", "fields": images, "name": "Envelope"}, "payload": payload})


Columns = dict[str, str]
"""Names of columns, and the dialect's names of their types. The first one is the key."""


def _row(number: int, columns: Columns) -> dict[str, Any]:
    """Texts in `note`, and the number in every other column."""
    return {name: f"note {number}" if name == "note" else number for name in columns}


def transferia(number: int, columns: Columns | int, values: int = 2) -> str:
    """An insert with its table's schema, or with the number of one that has so many values."""
    if isinstance(columns, int):
        row = dict(list(_row(number, {"id": "", "n": "", "note": ""}).items())[:values])
        schema: Any = {"SchemaID": columns}
    else:
        row = _row(number, columns)
        key = next(iter(columns))
        schema = [
            {"name": name, "type": kind, "key": name == key, "original_type": ""} for name, kind in columns.items()
        ]
    return json.dumps(
        {
            "ID": number,
            "CommitTime": 1_700_000_000_000_000_000 + number,
            "Kind": "INSERT",
            "Table": "public.users",
            "Values": list(row.values()),
            "TableSchema": schema,
        }
    )


def dataworks(number: int, columns: Columns) -> str:
    """An insert with its table's schema."""
    schema = {
        "dataColumn": [{"name": name, "type": kind} for name, kind in columns.items()],
        "primaryKey": [next(iter(columns))],
        "source": {"dbType": "mysql", "dbVersion": "8", "dbName": "shop", "schemaName": None, "tableName": "users"},
    }
    payload = {
        "before": None,
        "after": {"dataColumn": _row(number, columns)},
        "sequenceId": str(number),
        "op": "INSERT",
        "timestamp": {"eventTime": 1_700_000_000_000 + number},
    }
    return json.dumps({"schema": schema, "payload": payload})


def ydb(number: int, columns: Columns | None = None, version: int = 1) -> str:
    """The record that declares the table's schema from here on, or without columns an update."""
    if columns is None:
        return json.dumps({"key": [number], "update": {"n": number}, "ts": [number, 7]})
    types = {name: {"type": kind} for name, kind in columns.items()}
    table = {"schemaVersion": version, "columns": types, "primaryKeyColumnNames": [next(iter(columns))]}
    return json.dumps({"tableChanges": [{"table": table}], "ts": [number, 7]})
