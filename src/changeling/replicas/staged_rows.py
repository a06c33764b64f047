"""What a fold stages for each row that it touched, before stored rows complete it."""

import pyarrow as pa

from changeling.replicas.shape import Shape
from changeling.replicas.stored_types import arrow_type

KEY, EFFECT, MENTIONED, REFOLDED, STALE, COUNT = "key", "effect", "mentioned", "refolded", "stale", "count"
NEEDS_BASE = "needs_base"
MOVED_FROM = "moved_from"
"""The key of the stored row that moved here."""
POSITION, TIME, OP, UNTIL, UNTIL_TIME = "position", "time", "op", "until", "until_time"


def column_name(place: int) -> str:
    """The name of the replica's column at a place: its own may be anything."""
    return f"c{place}"


def stored_key_name(place: int) -> str:
    """The key column, at a place in the key, of the stored row that a row is based on."""
    return f"b{place}"


def staged_layout(shape: Shape, history: bool = False) -> pa.Schema:
    """Rows with all columns, the effect on each, and the stored row that it is based on."""
    columns = [(column_name(place), arrow_type(column.kind)) for place, column in enumerate(shape.columns)]
    base = [(stored_key_name(place), arrow_type(column.kind)) for place, column in enumerate(shape.key_columns)]
    own = [
        (KEY, pa.string()),
        (EFFECT, pa.string()),
        (MENTIONED, pa.list_(pa.bool_())),
        (REFOLDED, pa.bool_()),
        (STALE, pa.bool_()),
        (NEEDS_BASE, pa.bool_()),
        (MOVED_FROM, pa.string()),
        (COUNT, pa.int64()),
        (POSITION, pa.string()),
    ]
    ranges = [
        (TIME, pa.int64()),
        (OP, pa.string()),
        (UNTIL, pa.string()),
        (UNTIL_TIME, pa.int64()),
    ]
    return pa.schema([*columns, *base, *own, *(ranges if history else [])])
