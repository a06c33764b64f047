"""Where new rows with a partial image came from: a row that changed its key appears as a delete and a create.

Debezium and those who follow it write an update of the key so. A column that the database did not send with it has the value
that the row had under its old key: the delete is a part of the move, and must not take the row away before.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from changeling.model.change import Transaction
from changeling.model.position import encode

PositionAndKey = tuple[str, str]
"""The position and the key of a change, as the log has them."""


class Half(NamedTuple):
    """A delete, or a create with a partial image."""

    position: str
    key: str
    transaction: Transaction | None = None
    old: str | None = None
    """The key that the row had, where the record itself names it."""

    @property
    def place(self) -> PositionAndKey:
        """Its position."""
        return self.position, self.key


@dataclass(frozen=True)
class Moved:
    """Creates and the deletes that belong to them."""

    old_keys: dict[PositionAndKey, str | None] = field(default_factory=dict)
    """By create, the key that its row had; None where it is not known."""
    deletes: frozenset[PositionAndKey] = frozenset()
    """Deletes that are part of a move."""

    def differing(self, other: "Moved") -> set[PositionAndKey]:
        """The creates and deletes that do not belong together in the same way in both."""
        creates = {place for place, _ in self.old_keys.items() ^ other.old_keys.items()}
        return creates | (self.deletes ^ other.deletes)


def moved(creates: Iterable[Half], deletes: Iterable[Half]) -> Moved:
    """Which row each create was before: the one that its record names, else the one whose delete has the same position.

    Where several deletes have that position, the one that the transaction counts just before the create. A delete belongs to one
    create: where several claim it, it is not known whose it is.
    """
    wanted = {create.place: create for create in creates}
    known = _Deletes(deletes)
    found = {place: known.of(create) for place, create in wanted.items()}
    claims: dict[PositionAndKey, list[PositionAndKey]] = defaultdict(list)
    for place, delete in found.items():
        if delete is not None:
            claims[delete.place].append(place)
    old_keys = {place: create.old for place, create in wanted.items()}
    taken = set()
    for at, claimed in claims.items():
        sure = [place for place in claimed if known.is_sure(wanted[place], at)] or claimed
        if len(sure) == 1:
            old_keys[sure[0]] = at[1]
            taken.add(at)
    return Moved(old_keys, frozenset(taken))


class _Deletes:
    def __init__(self, deletes: Iterable[Half]) -> None:
        self._at: dict[str, dict[str, Half]] = defaultdict(dict)
        self._counted: dict[tuple[str, int], Half] = {}
        for delete in deletes:
            self._at[delete.position][delete.key] = delete
            if delete.transaction is not None and delete.transaction.total is not None:
                self._counted[delete.transaction.id, delete.transaction.total] = delete

    def of(self, create: Half) -> Half | None:
        """The delete that may belong to a create."""
        here = {key: delete for key, delete in self._at.get(create.position, {}).items() if key != create.key}
        before = self._before(create)
        if create.old is not None:
            named = here.get(create.old)
            return named if named is not None or before is None or before.key != create.old else before
        if before is not None:
            return before
        return next(iter(here.values())) if len(here) == 1 else None

    def is_sure(self, create: Half, delete: PositionAndKey) -> bool:
        """Whether more than the position shows that they belong together."""
        before = self._before(create)
        return create.old is not None or (before is not None and before.place == delete)

    def _before(self, create: Half) -> Half | None:
        """The delete that the transaction counts just before a create, of the same event of the source."""
        transaction = create.transaction
        if transaction is None or transaction.total is None:
            return None
        found = self._counted.get((transaction.id, transaction.total - 1))
        if found is None or found.key == create.key:
            return None
        same = found.position == create.position or _event(found) == _event(create)
        return found if same else None


def _event(half: Half) -> str:
    """The position without the trailing numbers by which a transaction counts its changes."""
    if half.transaction is None:
        return half.position
    counts = [count for count in (half.transaction.total, half.transaction.order) if count is not None]
    for tail in (counts, counts[:1]):
        end = f".{encode(*tail)}" if tail else ""
        if end and half.position.endswith(end):
            return half.position.removesuffix(end)
    return half.position
