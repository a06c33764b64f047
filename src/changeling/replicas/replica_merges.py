"""The merge of one replica: the base on which it is folded, and the changes that this needs."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from changeling.replicas.bases import Base
from changeling.replicas.fold_table import FoldTable
from changeling.replicas.logged_changes import Changes
from changeling.replicas.pending_changes import PendingTable
from changeling.replicas.replica_reader import Replica
from changeling.replicas.row_changes import RowChangesKernel

MANY = 20_000
"""With more keys than this, the whole table is folded again instead of single keys."""


@dataclass
class ReplicaMerge:
    """One replica to be merged."""

    pending: PendingTable
    replica: Replica
    folded: FoldTable
    base: Base | None = None
    """The base of rows that are folded again; None without such rows."""
    from_scratch: bool = False
    """The result replaces all rows."""
    version: int | None = None
    """The schema version of its columns, and the position of the last change that has it."""
    version_at: str = ""
    renamed: bool = False
    """Its columns are now known differently: earlier states can no longer be bases."""


def late_keys(changes: Changes, table: FoldTable) -> frozenset[str] | None:
    """The keys of rows that late changes touch; None where there are too many."""
    rows = changes.to_fold(MANY + 1)
    if rows.num_rows > MANY:
        return None
    return keys_of(rows.to_batches(), table)


def keys_of(batches: Sequence[pa.RecordBatch], table: FoldTable) -> frozenset[str]:
    """The keys that changes touch, each row's own and the one it had before."""
    found: set[str] = set()
    for events in RowChangesKernel((table,))(batches):
        found.update(events.column("key").to_pylist())
        found.update(events.column("moved_from").drop_null().to_pylist())
    return frozenset(found)
