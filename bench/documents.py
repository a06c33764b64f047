"""The columns of the two tables of events: as a pipeline declares them, as Spark types them, and as DuckDB does."""

from typing import NamedTuple


class Kind(NamedTuple):
    declared: str
    spark: str
    duckdb: str


_TEXT = Kind("string", "string", "VARCHAR")
_TIMESTAMP = Kind("timestamptz", "timestamp", "TIMESTAMPTZ")
_MONEY = Kind("decimal(18,2)", "decimal(18,2)", "DECIMAL(18,2)")
TABLES: dict[str, dict[str, Kind]] = {
    "users": {
        "_id": _TEXT,
        "name": _TEXT,
        "email": _TEXT,
        "created_at": _TIMESTAMP,
        "age": Kind("int32", "int", "INTEGER"),
        "is_active": Kind("bool", "boolean", "BOOLEAN"),
        "balance": _MONEY,
        "uuid": Kind("uuid", "string", "VARCHAR"),
        "last_updated": _TIMESTAMP,
    },
    "orders": {
        "_id": _TEXT,
        "customer_id": _TEXT,
        "order_date": _TIMESTAMP,
        "processing_duration": _TEXT,
        "total_amount": _MONEY,
        "status": _TEXT,
        "items": Kind("json", "string", "JSON"),
    },
}
AMOUNTS = {"users": "balance", "orders": "total_amount"}
"""A column of each to sum up."""


def declared(table: str) -> dict[str, str]:
    return {name: kind.declared for name, kind in TABLES[table].items()}


def spark_schema(table: str) -> str:
    return ", ".join(f"{name} {kind.spark}" for name, kind in TABLES[table].items())


def duckdb_structure(table: str) -> str:
    """The text that DuckDB's `from_json` takes."""
    return "{" + ", ".join(f'"{name}": "{kind.duckdb}"' for name, kind in TABLES[table].items()) + "}"
