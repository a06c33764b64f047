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
