"""When two changes are equal: by what a reader of the log could distinguish, and nothing else."""

from typing import Any

import pyarrow as pa

from changeling.formats.capabilities import LABELS
from changeling.formats.encoding import typed
from changeling.formats.format import Format
from changeling.model import arrow_layouts, json_text
from changeling.model.change import Change
from changeling.model.operation import Image


def canonical_changes(batch: pa.RecordBatch) -> list[Change]:
    """The changes of a batch with canonical values; a value that does not fit its type fails."""
    if batch.column("encoding").to_pylist()[:1] != ["canonical"]:
        batch, rejects = typed(batch)
        assert rejects.num_rows == 0, rejects.to_pylist()
    return arrow_layouts.changes(batch)


def essence(change: Change, arrived: bool, form: Format) -> dict[str, Any]:
    """What must be read back from `form`: labels only if it has them, positions only if they are the source's own."""
    return {
        "op": "write" if change.op in LABELS and change.op not in form.carries else change.op.value,
        "table": change.table and change.table.name,
        "key": change.key and json_text.canonical(_bytes(change.key)),
        "before": _row(change.before, change.key if change.key is not None else None, change.before_image),
        "after": _row(change.after, change.key, change.after_image),
        "before_image": Image.NONE if change.before_image is Image.KEY else change.before_image,
        "after_image": change.after_image,
        "position": None if arrived else change.position,
        "commit_time": change.commit_time,
        "transaction": change.transaction and change.transaction.id,
    }


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _row(text: str | bytes | None, key: str | bytes | None, image: Image) -> dict[str, bytes] | None:
    """An image with the key in it: dialects differ in whether images repeat the key columns."""
    if text is None or image is Image.KEY:
        return None
    row = {name: json_text.canonical(value) for name, value in json_text.members(text).items()}
    held = {name: json_text.canonical(value) for name, value in json_text.members(key or b"{}").items()}
    return {**held, **row}


def same(expected: Change, found: Change, arrived: bool, form: Format, halves: bool = False) -> None:
    """Asserts that `found` says all that `expected` said; what the format adds (a catalog, an order) is not a difference.

    `halves`: the last part of the position only distinguishes the halves of an update, which are joined here.
    """
    wanted, got = essence(expected, arrived, form), essence(found, arrived, form)
    if halves and not arrived:
        wanted["position"], got["position"] = (
            text and ".".join(text.split(".")[: expected.position.count(".")])  # type: ignore[union-attr]
            for text in (expected.position, found.position)
        )
    if expected.op in LABELS and expected.op not in form.carries:
        got["op"] = "write" if found.op in LABELS else found.op.value
    if expected.transaction is None:
        got["transaction"] = None
    if expected.table is not None and not form.names_table:
        got["table"] = wanted["table"]
    assert got == wanted
    if expected.transaction is not None and found.transaction is not None:
        for name in ("order", "total"):
            if getattr(expected.transaction, name) is not None:
                assert getattr(found.transaction, name) == getattr(expected.transaction, name), name
    if expected.table is not None and found.table is not None and form.names_table:
        for name in ("catalog", "schema"):
            if getattr(expected.table, name) is not None:
                assert getattr(found.table, name) == getattr(expected.table, name), name
