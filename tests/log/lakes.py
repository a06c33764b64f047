"""Pipelines for tests: made in a folder, run in this process, and their tables compared whole."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from pyiceberg.catalog.sql import SqlCatalog

from changeling.iceberg.table_definition import TableDefinition
from changeling.log import log_tables
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import load
from changeling.pipelines.pipeline import Pipeline

SMALL = {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}
"""What a pipeline that is run by a process of its own says of Spark, as the session of the tests does."""
MOMENTS = {"ingested_at", "registered_at", "planned_at"}
"""Columns that differ from run to run."""


@dataclass(frozen=True)
class Shop:
    """A pipeline called `shop` in a folder of its own."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "shop.yaml"

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline.load(self.file)

    def write(self, name: str, *lines: str | bytes) -> Path:
        """A file for the pipeline to read, one record a line."""
        path = self.folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = [line.encode() if isinstance(line, str) else line for line in lines]
        path.write_bytes(b"".join(text.rstrip(b"\n") + b"\n" for text in texts))
        return path

    def table(self, table: TableDefinition) -> pa.Table:
        """A table as PyIceberg reads it, moments left out."""
        catalog = SqlCatalog("lake", uri=f"sqlite:///{self.folder}/lake/catalog.db", warehouse=f"{self.folder}/lake")
        try:
            found = catalog.load_table(("shop", table.name)).scan().to_arrow()
        finally:
            catalog.close()
        return found.select([name for name in found.column_names if name not in MOMENTS])

    def rows(self, table: TableDefinition) -> list[dict[str, Any]]:
        """The rows of a table in an order of their own, paths relative to the folder."""
        return sorted((_relative(row, str(self.folder)) for row in self.table(table).to_pylist()), key=repr)

    def log(self) -> list[dict[str, Any]]:
        return self.rows(log_tables.CHANGES)

    def rejects(self) -> list[dict[str, Any]]:
        """The rejects as Spark reads them: PyIceberg takes headers that are null for an empty list."""
        rows: list[dict[str, Any]] = lake_of(load(self.file)).rows(log_tables.REJECTS).to_pylist()
        return [{name: row[name] for name in row if name not in MOMENTS} for row in rows]


def shop(folder: Path, *sources: dict[str, Any], **more: Any) -> Shop:
    """Writes the pipeline file; without sources it reads XTDB's events from `in/*.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    given = list(sources) or [{"name": "drop", "type": "files", "path": "in/*.json", "format": "xtdb"}]
    made = Shop(folder)
    made.file.write_text(
        yaml.safe_dump({"name": "shop", "warehouse": "./lake", "sources": given, **more}, sort_keys=False)
    )
    return made


def log_only(folder: Path, *sources: dict[str, Any], **more: Any) -> Shop:
    """The same, and nothing is made of the log."""
    rules = [*more.pop("tables", ()), {"name": "*", "mode": "append"}]
    return shop(folder, *sources, tables=[{"mode": "append", **rule} for rule in rules], **more)


def _relative(value: Any, folder: str) -> Any:
    if isinstance(value, str):
        return value.replace(folder, "FOLDER")
    if isinstance(value, dict):
        return {name: _relative(part, folder) for name, part in value.items()}
    return value


def message(row: dict[str, Any], offset: int) -> str:
    """A record as `kcat -J` prints it; its header `trace` is its offset."""
    key, value = (None if row[name] is None else row[name].decode() for name in ("key", "value"))
    place = {"topic": row["topic"], "partition": 0, "offset": offset}
    return json.dumps({**place, "headers": ["trace", str(offset)], "key": key, "payload": value})


def event(number: int, table: str = "users", **document: Any) -> str:
    """An XTDB event: transaction `number` creates a document."""
    row = {"_id": f"id-{number}", "n": number, **document}
    return json.dumps(
        {
            "op": "c",
            "before": None,
            "after": json.dumps(row),
            "source": {
                "version": "3.0.0",
                "connector": "xtdb-cdc",
                "name": "xtdb",
                "ts_ms": 1_700_000_000_000 + number,
                "snapshot": None,
                "db": "mydb",
                "table": table,
                "tx_id": number,
                "system_time": 1_700_000_000_000 + number,
            },
            "ts_ms": 1_700_000_000_000 + number,
            "transaction": {"id": str(number), "total_order": number, "data_collection_order": 0},
        }
    )
