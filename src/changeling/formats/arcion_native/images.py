"""How complete the images of a NATIVE record are: it has no `exists`, so what is known of the table decides."""

from collections.abc import Collection, Set

from changeling.model.operation import Image, Operation


def completeness(
    op: Operation, before: Set[str], after: Set[str], key: Collection[str], columns: Set[str]
) -> tuple[Image, Image]:
    """How complete `before` and `after` are, given the columns that they show.

    `columns` are all of the table, empty where they are not known. An insert is always full. Without columns, a delete is
    full unless it shows only the key, and an update is full if both sides show the same columns and more than the key; else
    it has its key before, and what it changed after.
    """
    if columns:
        smaller = Image.FULL if op is Operation.INSERT else Image.PARTIAL
        return _by_columns(before, key, columns, Image.KEY), _by_columns(after, (), columns, smaller)
    is_key = before == set(key)
    if op is Operation.UPDATE:
        if before and before == after and not is_key:
            return Image.FULL, Image.FULL
        by_key = Image.KEY if is_key or not key else Image.FULL
        return by_key if before else Image.NONE, Image.PARTIAL if after else Image.NONE
    known_before = Image.KEY if is_key else Image.FULL
    return known_before if before else Image.NONE, Image.FULL if after else Image.NONE


def _by_columns(shown: Set[str], key: Collection[str], columns: Set[str], smaller: Image) -> Image:
    if not shown:
        return Image.NONE
    if shown >= columns:
        return Image.FULL
    return smaller if not key or shown == set(key) else Image.PARTIAL
