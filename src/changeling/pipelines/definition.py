"""A pipeline as the user writes it: frozen, checked, nothing in it but what was said."""

import re
from typing import Annotated, Literal

import msgspec

from changeling.model.errors import UsageError

Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")]
"""Names become table names: a letter first, then letters, digits and underscores."""
Span = Annotated[str, msgspec.Meta(pattern=r"^\d+\s*(ms|s|m|h|d)$")]
"""A span of time such as `10s` or `30d`."""

_MILLIS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every part of a pipeline: unknown members are errors."""


class FilesSource(_Part, tag_field="type", tag="files", frozen=True, kw_only=True):
    """Files of one dialect, by path, folder, glob or `s3://`."""

    name: Name
    path: str
    format: str
    table: str | None = None
    key: tuple[str, ...] = ()
    options: dict[str, str | int | float | bool] = {}
    batch_bytes: Annotated[int, msgspec.Meta(gt=0)] = 512 * 1024 * 1024
    """About how much is read in one batch."""


class KafkaSource(_Part, tag_field="type", tag="kafka", frozen=True, kw_only=True):
    """Topics of one dialect, by name or pattern."""

    name: Name
    servers: str
    topics: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    format: str
    table: str | None = None
    key: tuple[str, ...] = ()
    options: dict[str, str | int | float | bool] = {}
    kafka: dict[str, str | int | bool] = {}
    """Settings of the Kafka client: security.protocol, sasl.mechanism, ssl.…"""
    batch_records: Annotated[int, msgspec.Meta(gt=0)] = 1_000_000
    """How many records are read in one batch, at most."""


Source = FilesSource | KafkaSource


class TableRule(_Part, frozen=True, kw_only=True):
    """What is known of a table beforehand, and how its changes are kept."""

    name: str
    source: str | None = None
    key: tuple[str, ...] = ()
    columns: dict[str, str] = {}
    mode: Literal["merge", "append", "history"] = "merge"
    schema: Literal["evolve", "ignore", "fail"] = "evolve"


class Definition(_Part, frozen=True, kw_only=True):
    """A whole pipeline."""

    name: Name
    warehouse: str
    sources: Annotated[tuple[Source, ...], msgspec.Meta(min_length=1)]
    tables: tuple[TableRule, ...] = ()
    settle: Span = "10s"
    retention: Span = "30d"
    spark: dict[str, str | int | float | bool] = {}
    """Any setting of Spark."""
    catalog: dict[str, str | int | bool] = {}
    """Settings of an Iceberg catalog; without any, SQLite in the warehouse."""

    def check(self) -> None:
        """Raises `UsageError` where parts do not agree with each other."""
        names = [source.name for source in self.sources]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"two sources are called {name!r}: give each a name of its own")
        for rule in self.tables:
            if rule.source is not None and rule.source not in names:
                raise UsageError(f"table {rule.name!r} names the source {rule.source!r}, which is not there; sources: {names}")


def span_millis(text: str) -> int:
    """Milliseconds of a span such as `10s`."""
    match = re.fullmatch(r"(\d+)\s*(ms|s|m|h|d)", text)
    if match is None:
        raise UsageError(f"{text!r} is not a span of time: write a number and ms, s, m, h or d")
    return int(match[1]) * _MILLIS[match[2]]
