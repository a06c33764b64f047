"""Arcion's JSON record on the wire, and the letters of its operations."""

import msgspec

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


MEMBERS = ("tableName", "opType", "cursor", "before", "after", "exists", "operationcount")
"""The members of a record in the order in which Arcion writes them."""


class Envelope(msgspec.Struct, rename="camel", gc=False, forbid_unknown_fields=True):
    """The plain shape: all seven members, images of texts. Other shapes are read member by member."""

    table_name: msgspec.Raw
    op_type: str
    cursor: msgspec.Raw
    before: dict[str, str]
    after: dict[str, str]
    exists: msgspec.Raw
    operationcount: msgspec.Raw
