"""Rows that change their key, for dialects whose records cannot express that: a delete of the old row, and an insert of the new one."""

from collections.abc import Callable

import msgspec

from changeling.formats.format import Outgoing
from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.operation import Image, Operation

_NEW = frozenset({Operation.INSERT, Operation.READ})


def _equal(one: bytes, other: bytes) -> bool:
    return one == other or json_text.canonical(one) == json_text.canonical(other)


def rows_of(out: Outgoing, equal: Callable[[bytes, bytes], bool] = _equal, *, in_part: bool = False) -> list[Change]:
    """The change, or a delete and an insert if it moves its row; `equal` compares two values of a key column.

    A partial row is completed from a full image before the change. Else it is a loss, unless the dialect can write an insert
    `in_part` whose reader knows that the rest is not NULL.
    """
    change = out.change
    if change.op in _NEW and change.after_image is Image.PARTIAL and not in_part:
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
