"""A changefeed: whose changes it publishes, in which dialect, and what its records show."""

from typing import Literal, TypeAlias

import msgspec

from changeling.model.table import TableName

Status: TypeAlias = Literal["pending", "enabled", "disabled", "dropped"]
Setting: TypeAlias = str | int | float | bool
DAY = 86_400


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """One changefeed, with every default filled in. It is stored as JSON in the table `feeds`."""

    name: str
    id: str
    """Distinguishes it from every other feed that ever had its name."""
    source: str | None = None
    """The source that the table belongs to; None while it is not known."""
    table: TableName
    format: str
    """The dialect, as `changeling formats` calls it."""
    mode: str
    """KEYS_ONLY, UPDATES, NEW_IMAGE, OLD_IMAGE or NEW_AND_OLD_IMAGES."""
    virtual_timestamps: bool = False
    barriers_interval: int | None = None
    """Seconds between barriers; None without them."""
    schema_changes: bool = False
    user_sids: bool = False
    initial_scan: bool = False
    retention: int | None = DAY
    """Seconds that records stay after they were published; None where they stay forever."""
    partitions: int = 1
    aws_region: str | None = None
    options: dict[str, Setting] = {}
    """Options of the format."""
    topic: Literal["table", "kafka", "files"] = "table"
    status: Status = "pending"
    start: int | None = None
    """The point behind which it publishes; None while the table is unknown."""
    created_at: str = ""
    """RFC 3339, in UTC."""
    in_file: bool = False
    """It is declared in the pipeline file."""
    disabled_by: Literal["statement", "file"] | None = None
    """What disabled it: a statement, for good, or the pipeline file, until that declares it again."""

    @property
    def enabled_status(self) -> Status:
        """Its status where nothing disables it."""
        return "pending" if self.start is None else "enabled"

    @property
    def shows_parts(self) -> bool:
        """Records show of an update what was updated. In this mode two of YDB's forms show nothing of the row."""
        return self.mode == "UPDATES" and self.format not in ("ydb-debezium", "ydb-dynamodb")

    @property
    def is_snapshot(self) -> bool:
        """Only the rows of the initial scan are published, as by Arcion's mode `snapshot`."""
        return self.format.startswith("arcion-") and self.options.get("mode") == "snapshot"
