"""What a change does, and how complete its images are. The wire's letters never leave the formats."""

from enum import StrEnum


class Operation(StrEnum):
    """What happened: the union of the operations of all dialects."""

    READ = "read"
    """A row as a snapshot found it."""
    INSERT = "insert"
    UPDATE = "update"
    UPSERT = "upsert"
    """Insert or update: the dialect does not distinguish them."""
    REPLACE = "replace"
    """The entire row is written; columns that are not mentioned become NULL."""
    DELETE = "delete"
    TRUNCATE = "truncate"

    BEGIN = "begin"
    COMMIT = "commit"
    BARRIER = "barrier"
    """Everything at a smaller position has been seen on this partition."""
    DDL = "ddl"
    MESSAGE = "message"
    """Anything else from the source; it never touches a row."""


ROW_OPERATIONS = frozenset(
    {Operation.READ, Operation.INSERT, Operation.UPDATE, Operation.UPSERT, Operation.REPLACE, Operation.DELETE}
)
"""Operations on one row; `truncate` is on all rows of a table, the rest are control changes."""
NEW_ROW_OPERATIONS = frozenset({Operation.INSERT, Operation.READ})
"""Operations on a row that was not there, or not known to be."""


class Image(StrEnum):
    """How complete an image of the row is."""

    FULL = "full"
    """Every column (key columns may be in the key only): an absent one is NULL."""
    PARTIAL = "partial"
    """Some columns: an absent one is unknown or unchanged."""
    KEY = "key"
    """Only the key columns."""
    NONE = "none"
