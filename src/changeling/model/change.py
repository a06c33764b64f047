"""The change: one record of any dialect, in the vocabulary that all of them share."""

import msgspec

from changeling.model.operation import Image, Operation
from changeling.model.table import TableName


class Transaction(msgspec.Struct, frozen=True, gc=False):
    """The transaction that a change belongs to."""

    id: str
    order: int | None = None
    """Place inside the transaction."""
    total: int | None = None
    """Place in the entire log of the source; of a mark that only ends the transaction, how many changes that has."""
    complete: bool | None = None
    """True on the change that is known to end it."""


class Change(msgspec.Struct, kw_only=True, gc=False):
    """What one record says. Texts are JSON; a column absent from an image is unknown, one that is `null` is NULL.

    What the reader knows about every record (source, encoding, origin) is added when batches are built.
    """

    op: Operation
    table: TableName | None = None
    key: str | bytes | None = None
    """Canonical JSON object of the key columns after the change (before it, for a delete)."""
    before: str | bytes | None = None
    after: str | bytes | None = None
    before_image: Image = Image.NONE
    after_image: Image = Image.NONE
    position: str | None = None
    """None where the dialect has no position: the place of arrival is used instead."""
    commit_time: int | None = None
    """Nanoseconds since 1970 by the source's clock."""
    transaction: Transaction | None = None
    meta: str | bytes | None = None
    """Everything else in the envelope, as a JSON object."""
    schema: str | None = None
    """The table's schema as text (see `TableSchema.to_json`), where the record contains or the user declares it."""
    arrived: bool = False
    """The position is the place of arrival: the dialect has none of its own."""


class Origin(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Where the raw record can be found."""

    file: str | None = None
    ordinal: int | None = None
    """The file's place among the files read."""
    record: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        if self.topic is not None:
            return f"{self.topic}[{self.partition}]@{self.offset}"
        return f"{self.file or 'input'} record {self.record}"


class Record(msgspec.Struct, gc=False):
    """One wire record as a format reads or writes it."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    topic: str | None = None
