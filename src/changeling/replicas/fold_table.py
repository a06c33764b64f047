"""What a fold has to know of one table: where it starts, what is folded together, and what becomes of the rows."""

from dataclasses import dataclass, field
from typing import NamedTuple

from changeling.model.table import TableName
from changeling.replicas.change_order import START, Rank, Truncate
from changeling.replicas.key_moves import Moved
from changeling.replicas.shape import Columns, Shape
from changeling.replicas.snapshot_attempts import Attempt


class AlreadyFolded(NamedTuple):
    """What earlier folds had: all of some batches, and of those up to `last_batch` the changes up to a position."""

    last_complete_batch: int = 0
    last_batch: int = 0
    position: str = ""


NOTHING_FOLDED = AlreadyFolded()


@dataclass(frozen=True)
class FoldTable:
    """One table of a fold: it is sent to the tasks."""

    source: str
    table: TableName
    columns: Columns
    shape: Shape
    stored: bool
    """Whether the fold starts on top of stored rows."""
    start_after: Rank = START
    """It begins after this place: the end of a position, or a truncate."""
    applied_up_to: str = ""
    """Row events up to this position are in the stored rows already."""
    refold_keys: frozenset[str] = frozenset()
    """Keys that are folded from an earlier state on, whatever the stored rows say."""
    groups: dict[str, str] = field(default_factory=dict)
    """Keys that must be folded together, since rows moved between them: one name for all of them."""
    moved: Moved = field(default_factory=Moved)
    """The old keys of new rows with a partial image, as far as they were looked up."""
    staged: bool = True
    """Rows are staged with their effects; otherwise they are written as final rows, which requires that nothing is stored."""
    history: bool = False
    is_change_list: bool = False
    """Nothing is folded: every change is a row."""
    attempts: tuple[Attempt, ...] = ()
    """Attempts at a snapshot of a table without a key: the rows of each count, and one attempt counts for all."""
    contained: str = ""
    """Changes before this position are in the rows of a complete snapshot, and do not count in addition."""
    already_folded: AlreadyFolded = NOTHING_FOLDED
    truncates: tuple[Truncate, ...] = ()
    """In order. Histories have all of them; other folds start after the last one, and list only that."""
    drops_superseded: bool = False
    """Events that later ones supersede are left out before the events of a row come together."""
    one_bucket: bool = False
    """So few changes that one task folds all of its rows: tasks write files of their own."""

    @property
    def is_incremental(self) -> bool:
        """Whether the result of earlier folds stays, and this one adds to it."""
        return self.already_folded.last_batch > 0

    def is_new(self, batch: int, position: str) -> bool:
        """Whether no earlier fold had this change."""
        folded = self.already_folded
        return batch > folded.last_batch or (batch > folded.last_complete_batch and position > folded.position)

    def truncates_by_position(self) -> dict[str, list[Rank]]:
        """All truncates, repeated ones as well, in order."""
        return {one.rank.position: [one.rank, *one.repeated] for one in self.truncates}

    def truncates_of(self, refolded: bool) -> list[Truncate]:
        """The truncates for refolded rows, or for the others, whose stored rows contain the earlier ones."""
        return [one for one in self.truncates if refolded or one.rank.position > self.applied_up_to]
