"""Options of readers and writers of Debezium's events."""

from changeling.formats.debezium_json.envelope import PLACEHOLDER
from changeling.formats.debezium_json.types import Decimals, Times
from changeling.formats.options import ReadOptions, WriteOptions


class DebeziumRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of Debezium's events."""

    placeholder: str = PLACEHOLDER
    """The connector's `unavailable.value.placeholder`: a column with this value is absent."""


class DebeziumWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a writer of Debezium's events."""

    connector: str = "changeling"
    """What `source.connector` says."""
    version: str = "3.0.0.Final"
    """What `source.version` says: the release of Debezium whose envelope is written."""
    name: str | None = None
    """The logical name of the server, which topics begin with: by default that of the record, or `changeling`."""
    schemas: bool = False
    """Write the schema part with every payload, as a converter with `schemas.enable=true`."""
    tombstones: bool = True
    """Write a tombstone after every delete, where messages have keys."""
    placeholder: str = PLACEHOLDER
    """The value of a column that a partial image leaves out."""
    times: Times | None = None
    """How dates and times are written: `isostring`, `adaptive` (counts of days and microseconds) or `connect`;
    by default `adaptive` with the schema part, which has the unit, else `isostring`."""
    decimals: Decimals | None = None
    """How decimals are written: `precise` (Base64 of the digits) or `string`; by default `precise` with the schema part,
    which has the scale, else `string`."""

    @property
    def names_topic(self) -> bool:
        """A server was named."""
        return self.name is not None
