"""Rows that change their key, for dialects whose records cannot express that: a delete of the old row, and an insert of the new one."""

from collections.abc import Callable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.cells import Cell, Cells
from changeling.envelope.text_columns import Mask, as_mask, is_one_of
from changeling.formats.format import Outgoing
from changeling.model import json_text, position
from changeling.model.change import Change
from changeling.model.operation import NEW_ROW_OPERATIONS, Image, Operation

OLD_KEY = "old_key"
"""The member of `meta` that holds the key which the row had, where the record of the create names it."""


def old_key_of(meta: str | bytes | None) -> str | None:
    """The key that a row had before, where the record of its create names it."""
    text = meta.decode() if isinstance(meta, bytes) else meta
    if text is None or f'"{OLD_KEY}"' not in text:
        return None
    found = json_text.members(text).get(OLD_KEY)
    return None if found is None else found.decode()


def check_old_key(out: Outgoing) -> None:
    """A new row in part whose record names the row that it was: another dialect has no place for that.

    Names that say no more than the position of the delete are left out before (see `named_old_keys`).
    """
    change = out.change
    in_part = change.op in NEW_ROW_OPERATIONS and change.after_image is Image.PARTIAL
    if in_part and (old := old_key_of(change.meta)) is not None:
        out.lose("key-change", f"the rest of the new row is that of row {old[:60]}, which its record names")


def names_old_key(batch: pa.RecordBatch) -> Mask:
    """The changes of a batch that `check_old_key` has to look at."""
    ops, image, meta = (batch.column(name) for name in ("op", "after_image", "meta"))
    new = pc.and_(is_one_of(ops, NEW_ROW_OPERATIONS), pc.equal(image, Image.PARTIAL.value))
    return as_mask(pc.and_(new, pc.match_substring(meta, f'"{OLD_KEY}"')))


def _equal(one: bytes, other: bytes) -> bool:
    return one == other or json_text.canonical(one) == json_text.canonical(other)


def rows_of(out: Outgoing, equal: Callable[[bytes, bytes], bool] = _equal, *, in_part: bool = False) -> list[Change]:
    """The change, or a delete and an insert if it moves its row; `equal` compares two values of a key column.

    A partial row is completed from a full image before the change. Else it is a loss, unless the dialect can write an insert
    `in_part` whose reader knows that the rest is not NULL. Where the source had the two as halves, each gets the position of its own.
    """
    change = out.change
    if change.op in NEW_ROW_OPERATIONS and change.after_image is Image.PARTIAL and not in_part:
        out.lose("key-change", "the rest of the new row is that of the row that it was under another key")
    if change.before is None or change.key is None or change.op is Operation.DELETE:
        return [change]
    before, key = json_text.members(change.before), json_text.members(change.key)
    if not any(name in before and not equal(before[name], value) for name, value in key.items()):
        return [change]
    after, image = json_text.members(change.after or b"{}"), Image.FULL
    if change.after_image is not Image.FULL:
        if change.before_image is not Image.FULL:
            image = Image.PARTIAL
            if not in_part:
                out.lose(
                    "key-change", "the row is written again under its new key, and this change has only part of it"
                )
        after = {**before, **key, **after}
    replace = msgspec.structs.replace
    return [
        replace(
            change,
            op=Operation.DELETE,
            key=json_text.canonical_key((name, before.get(name, value)) for name, value in key.items()),
            after=None,
            after_image=Image.NONE,
            position=_of_first_half(change.position) if out.halves else change.position,
        ),
        replace(
            change,
            op=Operation.INSERT,
            before=None,
            before_image=Image.NONE,
            after=json_text.join(after.items()),
            after_image=image,
        ),
    ]


def _of_first_half(at: str | None) -> str | None:
    """The position of the half with the row before, given that of the half with the row after."""
    return None if at is None else position.encode(*position.decode(at)[:-1], 0)


def rows_to_write(cells: Cells, out: Cell, *, in_part: bool = False, apart: bool = False) -> list[Cell]:
    """The rows of a change, as `rows_of` gives them, with nothing between the members of images. Changes of a group have one each.

    `apart`: rows of a group may be partial, and lack the columns of their keys, which are written apart from them.
    """
    if cells.is_columnar:
        out.check_rows(in_part=apart)
        return [out.change]
    return [
        msgspec.structs.replace(row, before=_compact(row.before), after=_compact(row.after))
        for row in rows_of(out, in_part=in_part)
    ]


def _compact(image: str | bytes | None) -> bytes | None:
    return None if image is None else json_text.join(json_text.members(image).items())
