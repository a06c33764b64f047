"""What a change does to its row: the meaning of operations and images, in one place for every fold."""

from enum import StrEnum

from changeling.formats import registry
from changeling.model import json_text
from changeling.model.operation import NEW_ROW_OPERATIONS, ROW_OPERATIONS, Image, Operation


class Effect(StrEnum):
    """The effect on the row of a change's key. Events at one position are sorted by the values, and rows are staged with them: they stay."""

    REPLACE = "whole"
    """The row is what the change contains; columns that the change does not mention are NULL."""
    PATCH = "patch"
    """The columns that the change mentions are written, the others stay; a missing row is created."""
    PARTIAL_INSERT = "part"
    """It is new with a partial image: the other columns are those of the row that it was under another key. Where it is not
    known which row that was, it is stale."""
    TOUCH = "touch"
    """It changed, and the change does not say how: it keeps its values and is stale from now on."""
    DELETE = "gone"


def effect(op: Operation, before_image: Image, after_image: Image, encoding: str) -> Effect | None:
    """The effect of a change of one row; None for changes that do not concern one row."""
    if op not in ROW_OPERATIONS:
        return None
    if op is Operation.DELETE or _is_first_half(op, before_image, after_image, encoding):
        return Effect.DELETE
    if after_image is Image.NONE:
        return Effect.TOUCH
    if op in NEW_ROW_OPERATIONS and after_image is Image.PARTIAL:
        return Effect.PARTIAL_INSERT
    if after_image is Image.FULL or op is Operation.REPLACE or op in NEW_ROW_OPERATIONS:
        return Effect.REPLACE
    return Effect.PATCH


def _is_first_half(op: Operation, before_image: Image, after_image: Image, encoding: str) -> bool:
    """The first half of an update that comes as two records: it removes its key, and the second half writes all of it."""
    is_half = op is Operation.UPDATE and after_image is Image.NONE and before_image is not Image.NONE
    return is_half and encoding != "canonical" and registry.get(encoding).halves


def old_key(key: str | bytes | None, before: str | bytes | None) -> str | None:
    """The key of the row before a change, where its image contains all of it; None otherwise."""
    if before is None or key is None:
        return None
    was, now = json_text.members(before), json_text.members(key)
    if not all(name in was for name in now):
        return None
    return json_text.canonical_key((name, was[name]) for name in now).decode()
