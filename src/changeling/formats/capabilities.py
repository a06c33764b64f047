"""The features of changes that a format may be unable to carry. These are the names that `--drop` accepts."""

import functools
from collections.abc import Callable, Collection, Iterable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.text_columns import Mask, as_mask, is_one_of
from changeling.model import arrow_layouts
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
    "placeholder": "values that look like the format's placeholder for columns that were not sent",
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
    own = msgspec.structs.replace(change, arrived=arrived)
    batch = arrow_layouts.changes_batch([own], pa.nulls(1, arrow_layouts.ORIGIN), "", "")
    return [feature for feature, mask in lacking(batch, frozenset()).items() if mask[0]]


def lacking(changes: pa.RecordBatch, carries: Collection[str]) -> dict[str, Mask]:
    """Which of these changes need each feature (see `needed`) beyond those that a format carries."""
    op, before, after = (changes.column(name) for name in ("op", "before_image", "after_image"))
    row = is_one_of(op, sorted(ROW_OPERATIONS))
    written = pc.and_(row, pc.not_equal(op, Operation.DELETE.value))
    catalog, schema, _ = changes.column("table").flatten()
    known: dict[str, Callable[[], pa.Array]] = {
        **{other.value: functools.partial(pc.equal, op, other.value) for other in Operation if other not in LABELS},
        "keyless": lambda: pc.and_(row, pc.is_null(changes.column("key"))),
        "before": lambda: pc.and_(row, is_one_of(before, (Image.FULL, Image.PARTIAL))),
        "keys-only": lambda: pc.and_(written, pc.equal(after, Image.NONE.value)),
        "after": lambda: pc.and_(written, pc.not_equal(after, Image.NONE.value)),
        "partial": lambda: pc.and_(row, pc.or_(*(pc.equal(image, Image.PARTIAL.value) for image in (before, after)))),
        "transaction": lambda: pc.is_valid(changes.column("transaction")),
        "commit_time": lambda: pc.is_valid(changes.column("commit_time")),
        "position": lambda: pc.invert(pc.fill_null(changes.column("arrived"), False)),
        "catalog": lambda: pc.is_valid(catalog),
        "schema": lambda: pc.is_valid(schema),
    }
    return {feature: as_mask(mask()) for feature, mask in known.items() if feature not in carries}
