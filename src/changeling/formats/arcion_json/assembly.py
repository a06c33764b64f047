"""What all of Arcion's dialects have in common once a record is parsed: presence, cells and cursor give a change."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from changeling.formats.arcion_json import cursor as cursors
from changeling.formats.arcion_json import images
from changeling.formats.arcion_json.cursor import Extras
from changeling.formats.arcion_json.envelope import LETTERS, OPERATIONS
from changeling.formats.arcion_json.images import Cell, Presence
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

Row = Mapping[str, Cell]


class Key:
    """Builds the canonical key from the cells that show it: those after the change first."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(sorted(names))
        self._heads = [
            (name, b"%b%b:" % (b"," if place else b"{", quote(name))) for place, name in enumerate(self.names)
        ]

    def text(self, after: Row | None, before: Row | None) -> bytes:
        """The canonical text; raises `Rejected` where no image shows a key column."""
        text = b""
        for name, head in self._heads:
            if after is not None and name in after:
                value = after[name]
            elif before is not None and name in before:
                value = before[name]
            else:
                raise Rejected(f"the record lacks key column {name!r}: no image shows it")
            shown = quote(value)
            # The output of `quote` is canonical; only a cell that was kept as it was may have another spelling.
            text += head + (shown if isinstance(value, str) else json_text.canonical(shown))
        return text + b"}"


class Plan(NamedTuple):
    """What all records of one table with the same `exists` share."""

    table: TableName | None
    schema: str | None
    key: Key | None
    names: frozenset[str]
    presence: Presence
    before_image: Image
    after_image: Image
    meta_head: bytes


def change_of(
    plan: Plan, letter: str, raw_cursor: bytes | msgspec.Raw, before: Row | None, after: Row | None
) -> Change:
    """The change of a record whose cells and cursor are these; raises `Rejected` where they contradict each other."""
    op = OPERATIONS.get(letter)
    if op is None:
        raise Rejected(f"unknown opType {letter!r}: Arcion has I, U and D")
    if op is Operation.DELETE and after is not None:
        raise Rejected(f"a delete with {', '.join(after)} in after: exists may be 0 or 2 only")
    cursor = cursors.read(raw_cursor)
    change = Change(
        op=op,
        table=plan.table,
        key=None if plan.key is None else plan.key.text(after, before),
        before=None if before is None else quote(before),
        after=None if after is None else quote(after),
        before_image=plan.before_image,
        after_image=plan.after_image,
        position=cursors.position(cursor),
        commit_time=cursors.commit_time(cursor),
        schema=plan.schema,
    )
    if cursor.changeling is not None:
        _apply_extras(change, cursor.changeling, plan, before, after)
    return change


def _apply_extras(change: Change, extras: Extras, plan: Plan, before: Row | None, after: Row | None) -> None:
    if extras.op is not None:
        if LETTERS.get(extras.op) != LETTERS[change.op]:
            raise Rejected(f"the cursor says {extras.op}, which is not written as opType {LETTERS[change.op]!r}")
        change.op = extras.op
    change.transaction = extras.transaction
    if extras.key and plan.key is None:
        if isinstance(extras.key, dict):
            change.key = json_text.canonical_key((name, quote(value)) for name, value in extras.key.items())
        else:
            change.key = Key(extras.key).text(after, before)
    names = extras.key or (plan.key.names if plan.key else ())
    change.before_image = images.before_image(plan.presence.before.present, plan.names, names)
    change.before_image, change.before = _declared_image(extras.before_image, change.before_image, change.before)
    change.after_image, change.after = _declared_image(extras.after_image, change.after_image, change.after)


def _declared_image(declared: Image | None, seen: Image, text: str | bytes | None) -> tuple[Image, str | bytes | None]:
    if declared is None:
        return seen, text
    return declared, None if declared is Image.NONE else text or b"{}"


def tombstone(record: Record, table: TableName | None) -> Change:
    """A message without a value; a message key that is no object of key columns is kept as it is."""
    key, kept = None, b""
    if record.key is not None and record.key[:1] == b"{":
        key = json_text.canonical_key(json_text.members(record.key).items())
    elif record.key is not None:
        kept = b',"message_key":%b' % quote(record.key.decode())
    return Change(op=Operation.MESSAGE, table=table, key=key, meta=b'{"tombstone":true%b}' % kept)


def tombstone_key(change: Change, meta: Mapping[str, bytes]) -> bytes | None:
    """The message key that a tombstone came with."""
    if "message_key" in meta:
        return json_text.string(meta["message_key"]).encode()
    return change.key.encode() if isinstance(change.key, str) else change.key
