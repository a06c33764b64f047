"""A row of Arcion's CSV on the wire: which field is what, and the header that names them."""

from collections.abc import Iterable, Sequence

from changeling.model.errors import Rejected

SUFFIXES = ("_NEW", "_OLD", "_EXISTS")
"""The three fields of each column: the value after the change, the one before it, and which of the two exist."""
METADATA = ("opType", "cursor", "operationcount")
"""The last three fields of a realtime row."""


def header_of(columns: Sequence[str], snapshot: bool) -> list[str]:
    """The names of the fields."""
    return list(columns) if snapshot else [name + suffix for name in columns for suffix in SUFFIXES] + list(METADATA)


def columns_of(header: Sequence[str], snapshot: bool) -> tuple[str, ...]:
    """The columns that a header names; the last three names of a realtime header may be others than ours.

    Raises `Rejected` where it is no such header.
    """
    if snapshot and tuple(header[-len(METADATA) :]) == METADATA:
        raise Rejected(f"the header is one of realtime rows, not of a snapshot: {_shown(header)}; -o mode=realtime")
    columns = tuple(header) if snapshot else _triplets(header)
    if not columns or len(set(columns)) < len(columns) or not all(columns):
        raise Rejected(f"the header names a column twice, or not at all: {_shown(header)}")
    return columns


def _triplets(header: Sequence[str]) -> tuple[str, ...]:
    names = header[: -len(METADATA)]
    columns = tuple(name[: -len(SUFFIXES[0])] for name in names[::3])
    wanted = [name + suffix for name in columns for suffix in SUFFIXES]
    if not columns or [name.lower() for name in names] != [name.lower() for name in wanted]:
        raise Rejected(
            f"not a header of realtime rows: {_shown(header)}; it has c_NEW, c_OLD and c_EXISTS for each column c, then "
            f"{', '.join(METADATA)}. Files without a header need -o header=false and --columns, snapshots -o mode=snapshot"
        )
    return columns


def wrong_width(found: int, columns: Sequence[str], snapshot: bool) -> str:
    """Why a row with this number of fields does not fit these columns."""
    count = len(columns)
    names = f"{count} columns ({_shown(columns)})"
    wide = 3 * count + len(METADATA)
    if snapshot:
        hint = "; it has the width of a realtime row: -o mode=realtime" if found == wide else ""
        return f"the row has {found} fields, a snapshot row of {names} has {count}{hint}"
    hint = "; it has the width of a snapshot row: -o mode=snapshot" if found == count else ""
    return f"the row has {found} fields, a realtime row of {names} has 3 x {count} + 3 = {wide}{hint}"


def _shown(names: Iterable[str]) -> str:
    text = ", ".join(names)
    return text if len(text) <= 200 else text[:197] + "..."


def is_header_or_row(fields: Sequence[str]) -> bool:
    """Whether these are the fields of a realtime row or its header. Those of a snapshot show nothing: any CSV looks like them."""
    if len(fields) <= len(METADATA) or len(fields) % len(SUFFIXES):
        return False
    letter, cursor, _ = fields[-len(METADATA) :]
    return tuple(fields[-len(METADATA) :]) == METADATA or (
        len(letter) == 1 and letter.isupper() and cursor.startswith("{")
    )
