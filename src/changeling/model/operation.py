"""What a change does, and how much of the row its images hold. The wire's letters stop at the formats."""

from enum import StrEnum


class Operation(StrEnum):
    """What happened, in the union of what the dialects can say."""

    READ = "read"
    """A row as a snapshot found it."""
    INSERT = "insert"
    UPDATE = "update"
    UPSERT = "upsert"
    """Insert or update: the dialect cannot tell."""
    REPLACE = "replace"
    """The whole row is written; columns that are not mentioned become NULL."""
    DELETE = "delete"
    TRUNCATE = "truncate"

    BEGIN = "begin"
    COMMIT = "commit"
    BARRIER = "barrier"
    """Everything at a smaller position has been seen on this partition."""
    DDL = "ddl"
    MESSAGE = "message"
    """Anything else that the source said; it never touches a row."""


ROW_OPERATIONS = frozenset(
    {Operation.READ, Operation.INSERT, Operation.UPDATE, Operation.UPSERT, Operation.REPLACE, Operation.DELETE}
)
"""Operations on one row; `truncate` is on all rows of a table, the rest are control changes."""


class Image(StrEnum):
    """How much of the row an image holds."""

    FULL = "full"
    """Every column (key columns may stand in the key alone): an absent one is NULL."""
    PARTIAL = "partial"
    """Some columns: an absent one is unknown or unchanged."""
    KEY = "key"
    """The key columns alone."""
    NONE = "none"
