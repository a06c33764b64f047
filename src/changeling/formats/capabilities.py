"""The features of changes that a format may be unable to carry. These are the names that `--drop` accepts."""

from collections.abc import Iterable

from changeling.model.change import Change
from changeling.model.operation import ROW_OPERATIONS, Image, Operation

FEATURES = {
    "read": "rows of a snapshot, as distinct from inserts",
    "insert": "inserts, as distinct from updates",
    "update": "updates, as distinct from inserts",
    "upsert": "writes that may be an insert or an update",
    "replace": "writes that set unmentioned columns to NULL",
    "delete": "deletes",
    "truncate": "truncation of a table",
    "begin": "marks of the begin of a transaction",
    "commit": "marks of the end of a transaction",
    "barrier": "marks that everything before has been seen",
    "ddl": "schema changes",
    "message": "other messages of the source",
    "before": "the row before the change",
    "after": "the row after the change",
    "partial": "images that leave out unchanged columns",
    "keys-only": "changes that have only the key",
    "key-change": "updates that move a row to another key",
    "keyless": "rows of tables without a key",
    "composite-key": "keys of more than one column",
    "position": "the source's own position of a change",
    "order": "the order of changes that differs from that of their positions",
    "commit_time": "when the source committed, to the nanosecond",
    "transaction": "which changes were committed together",
    "table": "which table a change belongs to, where one output contains several",
    "catalog": "the catalog of a table's name",
    "schema": "the schema of a table's name",
    "null": "columns that are NULL, as distinct from absent ones",
    "null-text": "text that looks like the format's NULL",
    "types": "values that the format has no type for",
    "binary": "bytes that are not text",
    "names": "columns whose names the format reserves",
}
"""Every feature, and what people lose with it."""

LABELS = frozenset({"read", "insert", "update", "upsert", "replace"})
"""Ways to say that a row was written. A format without one writes the nearest: the row is the same, and it is reported."""

SKIPPING = frozenset(operation.value for operation in Operation) - LABELS | {
    "keys-only",
    "keyless",
    "composite-key",
    "key-change",
}
"""Features whose loss leaves nothing worth writing: `--drop` of one leaves out the change."""


def carrying(*features: str, all_but: Iterable[str] = ()) -> frozenset[str]:
    """A checked set of features; `all_but` gives every feature without these."""
    unknown = {*features, *all_but} - FEATURES.keys()
    if unknown:
        raise ValueError(f"no such features: {sorted(unknown)}")
    return frozenset(features) if not all_but else frozenset(FEATURES) - set(all_but) | set(features)


def needed(change: Change, arrived: bool) -> list[str]:
    """What a format must carry so that this change can be read back from it.

    `arrived`: its position is the place of arrival, which any output preserves.
    """
    needs = [] if change.op in LABELS else [change.op.value]
    if change.op in ROW_OPERATIONS:
        if change.key is None:
            needs.append("keyless")
        if change.before_image in (Image.FULL, Image.PARTIAL):
            needs.append("before")
        if change.op is not Operation.DELETE:
            needs.append("keys-only" if change.after_image is Image.NONE else "after")
        if change.after_image is Image.PARTIAL or change.before_image is Image.PARTIAL:
            needs.append("partial")
    if change.transaction is not None:
        needs.append("transaction")
    if change.commit_time is not None:
        needs.append("commit_time")
    if not arrived:
        needs.append("position")
    if change.table is not None:
        if change.table.catalog is not None:
            needs.append("catalog")
        if change.table.schema is not None:
            needs.append("schema")
    return needs
