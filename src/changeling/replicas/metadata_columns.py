"""Columns that replicas of a kind have in addition to those of their table."""

import pyarrow as pa

from changeling.replicas.shape import Shape

SERVICE = {
    "rows": (),
    "history": (
        ("valid_from", pa.timestamp("us", "UTC"), "TIMESTAMP"),
        ("valid_to", pa.timestamp("us", "UTC"), "TIMESTAMP"),
        ("is_current", pa.bool_(), "BOOLEAN"),
        ("op", pa.string(), "STRING"),
        ("valid_from_position", pa.string(), "STRING"),
        ("valid_to_position", pa.string(), "STRING"),
    ),
    "changes": (
        ("op", pa.string(), "STRING"),
        ("image", pa.string(), "STRING"),
        ("position", pa.string(), "STRING"),
        ("commit_time", pa.timestamp("us", "UTC"), "TIMESTAMP"),
    ),
}
"""Columns that replicas of a kind have in addition to those of the table."""


def service_names(shape: Shape, kind: str) -> list[str]:
    """The names of the columns in addition to the table's own, with `_` in front where the table has one of that name."""
    taken = {column.name for column in shape.columns}
    found = []
    for name, _, _ in SERVICE[kind]:
        while name in taken:
            name = f"_{name}"
        taken.add(name)
        found.append(name)
    return found
