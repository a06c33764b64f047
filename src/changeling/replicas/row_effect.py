"""What a change does to its row: the meaning of operations and images, said once for every fold."""

from enum import StrEnum

from changeling.formats import registry
from changeling.model import json_text
from changeling.model.operation import ROW_OPERATIONS, Image, Operation


class Effect(StrEnum):
    """On the row of a change's key."""

    WHOLE = "whole"
    """It is what the change tells; columns that are not told are NULL."""
    PATCH = "patch"
    """Columns that are told are written, the others stay; a row that is not there comes to be."""
    PART = "part"
    """It is new, and not all of it is told: the rest is that of the row which it was under another key. Where nobody knows
    which row that was, it is stale."""
    TOUCH = "touch"
    """It changed, and nobody told how: it is stale from now on, and stays as it was."""
    GONE = "gone"


_COMING = frozenset({Operation.INSERT, Operation.READ})


def effect(op: Operation, before_image: Image, after_image: Image, encoding: str) -> Effect | None:
    """What a change of one row does; None for changes that say nothing of one row."""
    if op not in ROW_OPERATIONS:
        return None
    if op is Operation.DELETE or _is_first_half(op, before_image, after_image, encoding):
        return Effect.GONE
    if after_image is Image.NONE:
        return Effect.TOUCH
    if op in _COMING and after_image is Image.PARTIAL:
        return Effect.PART
    if after_image is Image.FULL or op is Operation.REPLACE or op in _COMING:
        return Effect.WHOLE
    return Effect.PATCH


def _is_first_half(op: Operation, before_image: Image, after_image: Image, encoding: str) -> bool:
    """The first half of an update that comes as two records: it removes its key, and the second half writes it whole."""
    is_half = op is Operation.UPDATE and after_image is Image.NONE and before_image is not Image.NONE
    return is_half and encoding != "canonical" and registry.get(encoding).halves


def old_key(key: str | bytes | None, before: str | bytes | None) -> str | None:
    """The key of the row before a change, where its image tells all of it; None where it does not."""
    if before is None or key is None:
        return None
    was, now = json_text.members(before), json_text.members(key)
    if not all(name in was for name in now):
        return None
    return json_text.canonical_key((name, was[name]) for name in now).decode()
