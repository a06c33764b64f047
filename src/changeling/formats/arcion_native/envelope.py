"""Arcion's NATIVE record on the wire."""

import msgspec

Cells = dict[str, msgspec.Raw]


MEMBERS = ("tableName", "opType", "cursor", "before", "after")
"""The members of a record in the order in which Arcion writes them."""


class Envelope(msgspec.Struct, rename="camel", gc=False, forbid_unknown_fields=True):
    """The usual shape: all five members. Other shapes are read member by member."""

    table_name: msgspec.Raw
    op_type: str
    cursor: msgspec.Raw
    before: Cells | None
    after: Cells | None
