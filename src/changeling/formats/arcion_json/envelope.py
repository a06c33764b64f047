"""Arcion's JSON record on the wire, and the letters of its operations."""

from changeling.model.json_text import quote
from changeling.model.operation import Operation

OPERATIONS = {"I": Operation.INSERT, "U": Operation.UPDATE, "D": Operation.DELETE}
LETTERS = {
    Operation.INSERT: "I",
    Operation.READ: "I",
    Operation.REPLACE: "I",
    Operation.UPDATE: "U",
    Operation.UPSERT: "U",
    Operation.DELETE: "D",
}
NULL_TEXT = "null"
"""The text of a cell that is NULL, and of one that says nothing; `exists` distinguishes the two."""
NULL_CELL = quote(NULL_TEXT)


MEMBERS = ("tableName", "opType", "cursor", "before", "after", "exists", "operationcount")
"""The members of a record in the order in which Arcion writes them."""
