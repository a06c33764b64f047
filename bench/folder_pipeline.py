"""A pipeline over a folder of events, run step by step: files are added, ingested into the log, and merged."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Literal

from bench.accounts import DECLARED, TABLE
from changeling.feeds.publish import FeedPublisher
from changeling.feeds.shared_reads import SharedReads
from changeling.log import log_tables
from changeling.log.change_log import Log
from changeling.pipelines.lakehouse import lake_of, tables_of
from changeling.pipelines.loading import load
from changeling.pipelines.log_follower import merge_of
from changeling.pipelines.pipeline import Pipeline
from changeling.pipelines.source_ingest import ingest_of, record_sources


class FolderPipeline:
    """The accounts in a folder of their own."""

    def __init__(
        self,
        folder: Path,
        mode: Literal["merge", "history"] = "merge",
        *,
        format: str = "xtdb",
        key: Sequence[str] = (),
        spark: Mapping[str, str] | None = None,
    ) -> None:
        """Without a `key`, of all tables, the source has the one table of the accounts. `spark`: settings of a new session."""
        self._inbox = folder / "in"
        self._inbox.mkdir(parents=True)
        self.file = file = folder / "feed.yaml"
        source = {
            "name": "drop",
            "type": "files",
            "path": "./in",
            "format": format,
            "batch_bytes": 4_000_000_000,
            "key": list(key),
        }
        rule = {"name": TABLE, "key": ["_id"], "columns": DECLARED, "mode": mode}
        rules = [] if key else [rule]
        # Any JSON is YAML.
        settings = {"name": folder.name, "warehouse": "./lake", "sources": [source], "tables": rules}
        file.write_text(json.dumps({**settings, "spark": dict(spark or {})}))
        self.pipeline = Pipeline.load(file)
        loaded = load(file)
        self.lake = lake_of(loaded)
        self.lake.create(log_tables.TABLES, log_tables.VERSION)
        log = Log(self.lake)
        (records,) = record_sources(loaded)
        self._ingest = ingest_of(loaded, log, records)
        self._merge = merge_of(loaded, log)
        self._loaded, self._log = loaded, log
        self._numbers = count()
        self.replica = f"lake.{folder.name}_replica.{TABLE}"
        """The current rows."""

    def add_file(self, events: Iterable[bytes]) -> None:
        """Adds a file."""
        with (self._inbox / f"{next(self._numbers):06d}.jsonl").open("wb", buffering=1 << 20) as out:
            out.writelines(event + b"\n" for event in events)

    def ingest(self) -> None:
        """Ingests all new files into the log."""
        while self._ingest.step() is not None:
            pass

    def merge(self) -> None:
        """Merges the log into the replicas."""
        while self._merge.step(drain=True) is not None:
            pass

    def publish(self) -> int:
        """Publishes the feeds of the pipeline up to the newest point; returns the number of records."""
        found = 0
        merge, loaded = self._merge, self._loaded
        shared = SharedReads(self._log, tables_of(loaded), loaded.policy, merge.tables, merge.points, tuple)
        for feed in self.pipeline.feeds():
            found += sum(report.records for report in FeedPublisher(shared, feed).step(self._merge.points))
        return found
