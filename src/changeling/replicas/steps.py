"""Steps of rows, and the tables of a fold that they belong to: what its two kernels share."""

from dataclasses import dataclass, field

import pyarrow as pa

from changeling.model.table import TableName
from changeling.replicas.origins import Moved
from changeling.replicas.shape import Columns, Shape

PLUS, MINUS, UNPLACED, UNSETTLED = "plus", "minus", "unplaced", "unsettled"
"""Beside the effects on rows with a key: one row more, one less, a change that has no place in the replica, and a new row told in
part of which nobody has looked up yet where it came from."""

READ_COLUMNS = (
    "source",
    "table",
    "op",
    "key",
    "before",
    "after",
    "before_image",
    "after_image",
    "encoding",
    "position",
    "commit_time",
    "schema_id",
)
STEPS = pa.schema(
    [
        ("table", pa.int32()),
        ("group", pa.string()),
        ("position", pa.string()),
        ("key", pa.string()),
        ("origin", pa.string()),
        ("effect", pa.string()),
        ("op", pa.string()),
        ("told", pa.string()),
        ("encoding", pa.string()),
        ("schema", pa.int64()),
        ("commit_time", pa.int64()),
        ("again", pa.bool_()),
    ]
)
"""Steps. Those of one group are folded together; `again` tells rows that are folded from an earlier state on."""


@dataclass(frozen=True)
class FoldedTable:
    """One table of a fold: it is sent to the tasks."""

    source: str
    table: TableName
    columns: Columns
    shape: Shape
    stored: bool
    """There are rows below the fold."""
    floor: str = ""
    """It begins behind this position."""
    top: str = ""
    """Steps up to this position are in the stored rows already."""
    again: frozenset[str] = frozenset()
    """Keys that are folded from an earlier state on, whatever the stored rows say."""
    groups: dict[str, str] = field(default_factory=dict)
    """Keys that must be folded together, since rows moved between them: one name for all of them."""
    moved: Moved = field(default_factory=Moved)
    """Where new rows that are told in part came from, as far as it was looked up."""
    staged: bool = True
    """Rows are written with what became of them; else as the replica has them, which only holds where nothing is stored."""
    history: bool = False
    listed: bool = False
    """Nothing is folded: every change is a row."""
    truncates: tuple[tuple[str, int | None], ...] = ()
    """Where all rows went, and when; for history alone: other folds begin behind the last one."""

    def truncates_of(self, again: bool) -> list[tuple[str, int | None]]:
        """Those that concern rows which are folded again, or the others: for them, earlier ones are in the stored rows."""
        return [one for one in self.truncates if again or one[0] > self.top]
