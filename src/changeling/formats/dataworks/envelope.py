"""The metadata fields of DataWorks' rows on the wire, under every name that they have had."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from changeling.formats.nested_text import NESTED, NestedAsText, from_text
from changeling.model.errors import Rejected
from changeling.model.operation import Operation

SEQUENCE = "_sequence_id_"
OPERATION = "_operation_type_"
TIME = "_execute_time_"
BEFORE = "_before_image_"
AFTER = "_after_image_"
SOURCE_TABLE = "_source_table_"

METADATA = (SEQUENCE, OPERATION, TIME, BEFORE, AFTER)
"""The five fields of every record, in the order in which they are written."""

ALIASES = {SEQUENCE: "_log_file_name_offset_", TIME: "_excute_time_"}
"""Older names, read where a record does not have the one of today."""

TYPES = NestedAsText(read={"json": from_text}, write=NESTED)
"""The values of rows: JSON has numbers and booleans, CSV has texts, and both spell all else as canonical text."""

RESERVED = frozenset({*METADATA, SOURCE_TABLE})


class Shape(NamedTuple):
    """What one operation type with one pair of image flags means."""

    op: Operation
    side: str
    """The image that the row is: `before` or `after`."""
    half: bool
    """The record is one of the two that make an update."""


SHAPES = {
    ("I", "N", "Y"): Shape(Operation.INSERT, "after", False),
    ("D", "Y", "N"): Shape(Operation.DELETE, "before", False),
    ("U", "Y", "N"): Shape(Operation.UPDATE, "before", True),
    ("U", "N", "Y"): Shape(Operation.UPDATE, "after", True),
}

LETTERS = {
    Operation.READ: "I",
    Operation.INSERT: "I",
    Operation.UPDATE: "U",
    Operation.UPSERT: "U",
    Operation.REPLACE: "U",
    Operation.DELETE: "D",
}

FLAGS = {"before": ("Y", "N"), "after": ("N", "Y")}
"""The image flags of a record that shows this side of the row."""


def roles_of(names: Collection[str]) -> dict[str, str]:
    """The name by which a record calls each metadata field; raises `Rejected` if it lacks one."""
    found = {}
    for role in METADATA:
        name = role if role in names else ALIASES.get(role, role)
        if name not in names:
            raise Rejected(f"there is no `{role}`: a change has five metadata fields, and a plain row without is none")
        found[role] = name
    if SOURCE_TABLE in names:
        found[SOURCE_TABLE] = SOURCE_TABLE
    return found


def is_header_or_row(fields: Sequence[str]) -> bool:
    """Whether the fields of a row of CSV are those of a change, with its five metadata fields first, or of a header."""
    return {OPERATION, BEFORE, AFTER} <= set(fields) or (
        len(fields) > len(METADATA) and (*fields[1:2], *fields[3:5]) in SHAPES
    )
