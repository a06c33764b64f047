"""The names of columns in a replica: their own, except those that Iceberg or Spark cannot store."""

import unicodedata
from collections.abc import Sequence

_KEPT_BY_ICEBERG = {
    "_file",
    "_pos",
    "_deleted",
    "_spec_id",
    "_partition",
    "_row_id",
    "_last_updated_sequence_number",
}
"""Iceberg's own metadata columns of rows: a table with such a column cannot be merged into, or read as of a time."""
_KEPT_BY_SPARK = {"__row_operation", "__row_from_source", "__row_from_target", "__row_id"}
_KEPT_PREFIX = "__original_row_id_"
"""Columns that Spark adds to the rows of a merge: a column of such a name gets another value, or none."""
_LETTERS = {"Lu", "Ll", "Lt", "Lm", "Lo"}
_DIGITS = "Nd"


def stored_names(names: Sequence[str]) -> list[str]:
    """The names under which columns with these names are stored, in the same order, all different.

    One that cannot be stored under its own name has as many `_` in front as it needs: one without a name is `_`.
    """
    found: dict[int, str] = {}
    taken: set[str] = set()
    for place, name in enumerate(names):
        if _can_be_stored(name, taken):
            found[place] = name
            taken.add(_in_files(name))
    for place, name in enumerate(names):
        if place in found:
            continue
        stored = f"_{name}"
        while not _can_be_stored(stored, taken):
            stored = f"_{stored}"
        found[place] = stored
        taken.add(_in_files(stored))
    return [found[place] for place in range(len(names))]


def _can_be_stored(name: str, taken: set[str]) -> bool:
    kept = not name or name in _KEPT_BY_ICEBERG or name in _KEPT_BY_SPARK or name.startswith(_KEPT_PREFIX)
    return not kept and _in_files(name) not in taken


def _in_files(name: str) -> str:
    """How Iceberg spells a name in data files: in letters, digits and `_`, so that `a.b` is `a_x2Eb`."""
    units = name.encode("utf-16-be", "surrogatepass")
    letters = [chr(units[place] << 8 | units[place + 1]) for place in range(0, len(units), 2)]
    return "".join(_spelled(letter, first=place == 0) for place, letter in enumerate(letters))


def _spelled(letter: str, *, first: bool) -> str:
    kind = unicodedata.category(letter)
    if letter == "_" or kind in _LETTERS or (kind == _DIGITS and not first):
        return letter
    return f"_{letter}" if kind == _DIGITS else f"_x{ord(letter):X}"
