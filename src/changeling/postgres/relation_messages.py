"""Collects which tables and partitions a stream describes, under which names, and the root that a partition's changes are reported for.

The catalog shows tables as they are now. Former names and partitions are only in the stream: each session describes a table
before its first change, and again after the table was altered.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from changeling.postgres.frames import Frames, WireRelation, relation
from changeling.postgres.transactions import BEGIN, DELETE, INSERT, UPDATE
from changeling.postgres.tuples import numbers

_RELATION, _TYPE = ord("R"), ord("Y")


class Description(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A table or a partition as the stream described it for a change."""

    oid: int
    schema: str
    name: str
    identity: str
    """The letter of its replica identity."""
    columns: tuple[tuple[str, int], ...]
    """Names and type oids."""
    key: tuple[str, ...]
    """The columns of its replica identity; all of them where it is full."""
    lsn: int
    """The commit LSN of the transaction that it was described in; the last one of several."""
    root: int = 0
    """The oid of the partitioned table that its changes are reported for; 0 for the table itself."""
    like_root: bool = True
    """It identifies changed rows as its root does."""


class Descriptions:
    """Collects the descriptions chunk by chunk."""

    def __init__(self) -> None:
        self._open: list[tuple[WireRelation, int]] = []
        self._lsn = 0
        self._found: dict[Description, int] = {}

    def learn(self, frames: Frames) -> None:
        """Adds the descriptions of the next chunk."""
        letters = frames.letters
        begins = np.flatnonzero(letters == BEGIN)
        places = np.flatnonzero(letters == _RELATION)
        lsns = np.append(self._lsn, numbers(frames.data, frames.starts[begins] + 1, ">i8"))
        self._lsn = int(lsns[-1])
        others = np.flatnonzero((letters != _RELATION) & (letters != _TYPE))
        following = np.searchsorted(others, places)
        carried = {0} if self._open and len(others) else set()
        for number in sorted({*following.tolist(), *carried}):
            for place in places[following == number].tolist():
                self._open.append((relation(frames.body(place)), int(lsns[np.searchsorted(begins, place)])))
            if number < len(others):
                self._close(frames, int(others[number]))

    def found(self) -> list[Description]:
        """Each description once, with the last commit LSN that it was needed for."""
        return [msgspec.structs.replace(one, lsn=lsn) for one, lsn in self._found.items()]

    def _close(self, frames: Frames, message: int) -> None:
        """A change of a partition follows the descriptions of its root and of itself."""
        described, self._open = self._open, []
        target = None
        if frames.letters[message] in (INSERT, UPDATE, DELETE):
            target = int(numbers(frames.data, frames.starts[message : message + 1] + 1, ">u4")[0])
        *before, (last, lsn) = described
        root = next((one for one, _ in before if one.oid == target and last.oid != target), None)
        for one, place in before:
            self._note(_description(one), place)
        self._note(_description(last, root), lsn)

    def _note(self, one: Description, lsn: int) -> None:
        self._found[one] = max(lsn, self._found.get(one, 0))


def _description(one: WireRelation, root: WireRelation | None = None) -> Description:
    return Description(
        one.oid,
        one.schema,
        one.name,
        one.identity,
        tuple((column.name, column.type) for column in one.columns),
        _key(one),
        0,
        0 if root is None else root.oid,
        root is None or _identifies_like(one, root),
    )


def _key(one: WireRelation) -> tuple[str, ...]:
    return tuple(column.name for column in one.columns if column.is_identity)


def _identifies_like(one: WireRelation, root: WireRelation) -> bool:
    if one.identity == "f" or "n" in (one.identity, root.identity):
        return True
    return root.identity != "f" and set(_key(one)) == set(_key(root))


def to_texts(found: Sequence[Description]) -> list[str]:
    """Descriptions as texts, which a task returns to the driver."""
    return [msgspec.json.encode(one).decode() for one in found]


def from_texts(texts: Sequence[str]) -> list[Description]:
    """The descriptions of these texts."""
    return [msgspec.json.decode(text, type=Description) for text in texts]
