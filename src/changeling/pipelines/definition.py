"""A pipeline as the user writes it: frozen, checked, with nothing derived."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from changeling.model.json_text import LARGEST_LIMIT, SIZE_LIMIT

Setting: TypeAlias = str | int | float | bool
"""The value of an option or a setting; `setting_texts` returns it as text."""
Text = Annotated[str, Meta(min_length=1)]
Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$",
        description="a letter, then letters, digits and underscores, at most 63 in all",
    ),
]
"""Names become names of tables."""
Span = Annotated[
    str,
    Meta(pattern=r"^[0-9]{1,12} *(ms|s|m|h|d)$", description="a number and ms, s, m, h or d, as in 10s"),
]
Count = Annotated[int, Meta(ge=1)]
Texts = Annotated[tuple[Text, ...], Meta(min_length=1)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every part of a pipeline: unknown members are errors."""


class _Records(_Part, frozen=True, kw_only=True):
    """The settings of every source of records in some dialect."""

    name: Name
    """The name of the stream: positions compare only inside one source."""
    format: Text
    """The dialect of the records; `changeling formats` lists them."""
    table: Text | None = None
    """The table of records that do not name one: [catalog.][schema.]name."""
    key: tuple[Text, ...] = ()
    """The key columns, where neither the records nor a rule under `tables` have them."""
    columns: dict[str, str] = {}
    """The columns and their types, where the records do not carry them."""
    schema_file: Text | None = None
    """A JSON file with the schemas of tables, as `--schema` takes it."""
    options: dict[str, Setting] = {}
    """Options of the format."""
    record_bytes: Annotated[int, Meta(ge=1, le=LARGEST_LIMIT)] = SIZE_LIMIT
    """The size of the largest record that is read, after unpacking; a larger one is rejected, and for files its start is kept."""
    on_error: Literal["reject", "fail"] = "reject"
    """What happens to a record that cannot be read: it is rejected, or it stops the run."""


class FilesSource(_Records, tag_field="type", tag="files", frozen=True, kw_only=True):
    """Files of one dialect."""

    path: Text
    """A file, a folder, a pattern with `*`, `?` or `**`, or any of them under s3://bucket/."""
    carrier: Literal["plain", "kcat"] = "plain"
    """How records are framed in the files: as they are, or as messages that `kcat -J` prints."""
    batch_bytes: Count = 512 * 1024 * 1024
    """About how many bytes one batch reads."""
    batch_files: Count = 10_000
    """How many files one batch reads at most."""


class KafkaSource(_Records, tag_field="type", tag="kafka", frozen=True, kw_only=True):
    """Topics of one dialect."""

    servers: Text
    """The brokers: host:port, separated by commas."""
    topics: Texts
    """Names of topics, or patterns with `*`."""
    kafka: dict[str, Setting] = {}
    """Settings of the Kafka client, such as security.protocol."""
    batch_records: Count = 1_000_000
    """How many records one batch reads at most."""
    start: Literal["earliest", "latest"] = "earliest"
    """Where a topic that was never read begins."""
    on_gap: Literal["fail", "skip"] = "fail"
    """What happens if records were deleted before they were read."""


class PostgresSource(_Part, tag_field="type", tag="postgres", frozen=True, kw_only=True):
    """Tables of a PostgreSQL database: a snapshot of them, then every change."""

    name: Name
    """The name of the stream."""
    url: Text
    """postgresql://user:password@host/database, or anything else that libpq takes."""
    tables: Texts
    """Which tables: schema.name, or patterns with `*`; without a schema, those of `public`."""
    slot: Annotated[str, Meta(pattern=r"^[a-z0-9_]{1,63}$")] | None = None
    """The replication slot; it is created if it does not exist. By default changeling_PIPELINE_SOURCE."""
    publication: Text | None = None
    """The publication; it is created, and missing tables are added to it. By default it has the name of the slot."""
    without_identity: Literal["refuse", "inserts"] = "refuse"
    """What happens to tables with nothing that identifies a row: they stop the run, or only their inserts are captured."""
    batch_bytes: Count = 256 * 1024 * 1024
    """About how many bytes of the server's log, or of tables, one batch reads."""
    lag_alarm: Count = 1024 * 1024 * 1024
    """How many bytes the server may retain for the slot before a warning is given."""
    salt: str = ""
    """A prefix of values that are hashed, so that nobody can look them up in a list."""


RecordSource: TypeAlias = FilesSource | KafkaSource
Source: TypeAlias = FilesSource | KafkaSource | PostgresSource


class TableRule(_Part, frozen=True, kw_only=True):
    """What is known about a table in advance, and how its changes are kept."""

    name: Text
    """[catalog.][schema.]name: it applies to every table that matches the parts that are given, which may be patterns with `*`."""
    source: Text | None = None
    """The source that the rule applies to; without one, all of them."""
    id: Annotated[int, Meta(ge=0)] | None = None
    """The number by which records name this schema instead of carrying it."""
    key: tuple[Text, ...] = ()
    """The key columns."""
    columns: dict[str, str] = {}
    """The columns and their types."""
    mode: Literal["merge", "append", "history"] = "merge"
    """What the replica keeps: rows as they are now, every change, or every state of a row."""
    typed: bool = False
    """With `mode: append`: every change is also a row of a typed table, in addition to the log."""
    schema: Literal["evolve", "ignore", "fail"] = "evolve"
    """What happens to a column that the table does not have: it is added, ignored, or stops the run."""
    include: tuple[Text, ...] = ()
    """Of a postgres source: the columns to capture, by name or pattern; the others are never stored. Keys always are."""
    exclude: tuple[Text, ...] = ()
    """Of a postgres source: columns that are never stored."""
    mask: tuple[Text, ...] = ()
    """Of a postgres source: columns of which only `***` is stored."""
    hash: tuple[Text, ...] = ()
    """Of a postgres source: columns of which only the SHA-256 is stored."""
    where: Text | None = None
    """Of a postgres source: a condition in SQL on the columns that identify a row; other rows are never stored."""


class _Topic(_Part, frozen=True, kw_only=True):
    """The settings of every kind of topic."""

    partitions: Count | None = None
    """How many partitions it has, for the feed's whole life; by default TOPIC_MIN_ACTIVE_PARTITIONS, or 1."""


class TableTopic(_Topic, tag_field="type", tag="table", frozen=True, kw_only=True):
    """A topic that is a table of the lake."""


class KafkaTopic(_Topic, tag_field="type", tag="kafka", frozen=True, kw_only=True):
    """A topic of Kafka."""

    servers: Text
    """The brokers: host:port, separated by commas."""
    name: Text = "{prefix}{table}"
    """The topic: a template with {prefix}, {schema}, {table} and {feed}."""
    prefix: str = ""
    """What {prefix} stands for."""
    kafka: dict[str, Setting] = {}
    """Settings of the Kafka client, such as security.protocol."""


class FilesTopic(_Topic, tag_field="type", tag="files", frozen=True, kw_only=True):
    """A topic that is a folder of files."""

    path: Text
    """The folder, or s3://bucket/…"""
    file_bytes: Count = 32 * 1024 * 1024
    """About how many bytes a file has before the next one begins."""
    file_time: Span = "60s"
    """How long records wait for a file to become full before it is written as it is."""


class Feed(_Part, frozen=True, kw_only=True):
    """A changefeed of a table."""

    name: Name
    """The name of the feed."""
    table: Text
    """The table whose changes it publishes: [catalog.][schema.]name."""
    source: Text | None = None
    """The source of the table, where several have one of that name."""
    settings: dict[str, Setting] = msgspec.field(default_factory=dict, name="with")
    """The options after WITH when a changefeed is added, such as FORMAT and MODE."""
    options: dict[str, Setting] = {}
    """Options of the format."""
    topic: TableTopic | KafkaTopic | FilesTopic = TableTopic()
    """Where its records go."""


class PostgresTarget(_Part, tag_field="type", tag="postgres", frozen=True, kw_only=True):
    """A PostgreSQL database that replicas are copied to."""

    name: Name
    """The name of the target."""
    url: Text
    """postgresql://user:password@host/database."""
    tables: Texts
    """Which tables: schema.name, or patterns with `*`."""


class Definition(_Part, frozen=True, kw_only=True):
    """A pipeline of Changeling: where changes come from, and where they go."""

    name: Name
    """The name of the pipeline: its tables are lake.NAME.changes, .rejects, .schemas."""
    warehouse: Text
    """Where the tables are stored: a folder, or s3://bucket/…"""
    sources: Annotated[tuple[Source, ...], Meta(min_length=1)]
    """Where records come from."""
    tables: tuple[TableRule, ...] = ()
    """What is known about tables in advance; not needed where the source provides it."""
    feeds: tuple[Feed, ...] = ()
    """Changefeeds. One that is taken out of the file is disabled, never dropped."""
    targets: tuple[PostgresTarget, ...] = ()
    """Databases that replicas are copied to."""
    settle: Span = "10s"
    """When a transaction without an end mark counts as complete."""
    retention: Span = "30d"
    """How long changes are kept."""
    spark: dict[str, Setting] = {}
    """Any settings of Spark."""
    catalog: dict[str, Setting] = {}
    """Settings of an Iceberg catalog; without any, it is a SQLite file."""


def setting_texts(settings: Mapping[str, Setting]) -> dict[str, str]:
    """Settings as the texts that Spark, Kafka and formats take: booleans are `true` and `false`."""
    return {
        name: ("true" if value else "false") if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }
