"""What a conversion loses: counted where the user allowed it, else collected for one refusal that names all of it."""

from collections import Counter
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from changeling.formats.encoding import Encoded
from changeling.model import arrow_layouts
from changeling.model.printable import printable


class Losses:
    """The features that changes lose on their way into one output."""

    def __init__(self, form: str, allowed: frozenset[str], dropped: Counter[str]) -> None:
        self._form, self._allowed, self._dropped = form, allowed, dropped
        self._refused: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def __bool__(self) -> bool:
        """Whether the conversion must be refused."""
        return bool(self._refused)

    @property
    def names(self) -> frozenset[str]:
        """Features that were lost without permission."""
        return frozenset(self._examples)

    def examples(self, rejects: pa.RecordBatch) -> frozenset[str]:
        """Keeps the reasons of refused changes; returns the features that no change was refused for before."""
        found = set()
        reasons, features = rejects.column("reason").to_pylist(), rejects.column("feature").to_pylist()
        for reason, feature, origin in zip(reasons, features, arrow_layouts.origins(rejects), strict=True):
            if feature is not None and feature not in self._examples:
                found.add(feature)
                self._examples[feature] = f"{reason.partition(': ')[2]} ({origin})"
        return frozenset(found)

    def add(self, feature: str, changes: int, example: str | None = None) -> None:
        """Counts changes that are written without the feature, or not at all because of it."""
        if feature in self._allowed:
            self._dropped[feature] += changes
            return
        self._refused[feature] += changes
        if example is not None:
            self._examples.setdefault(feature, example)

    def explanation(self) -> str:
        """The refusal, for people."""
        lines = [f"converting to {self._form} would lose:"]
        for feature, count in most_first(self._refused):
            lines.append(f"  {feature}: {count:,} changes, such as: {printable(self._examples[feature])}")
        lines.append(
            f"Allow it with --drop {','.join(sorted(self._allowed | set(self._refused)))}; nothing was written."
        )
        return "\n".join(lines)


def most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """The same counts are by name, so that equal input gives equal output."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


_LATE = "without positions the order of the output counts, and this change comes too late: sort the input first"
_BEHIND = "the record gets no position, and readers take it for older than the records before it, which have one"
_BEFORE = "the position that the record gets is before that of an earlier record, and readers go by it"
_SIDES = "the record gets the position of an earlier one, and belongs before that"
_RECENT = 10_000
"""How many sequence ids of halves are remembered: records of one id are close to each other, unless files were mixed."""


class OutputOrder:
    """Whether the readers of an output see its changes in the order of their positions.

    Readers go by the position that a record has. Where it has none they go by its place in the output, and take it for older
    than all that have one. `halves`: the last part of a position distinguishes halves, and records need not have it.
    """

    def __init__(self, *, halves: bool = False) -> None:
        self._halves = halves
        self._last: dict[str, str] = {}
        self._last_unplaced: dict[str, str] = {}
        self._sides: dict[tuple[str, str], str] = {}
        self._highest: tuple[int, ...] = ()
        self._given = False
        self._some_placed = False

    def breaks(self, batch: pa.RecordBatch, encoded: Encoded) -> Iterator[tuple[int, str]]:
        """The changes of a batch that are out of order, each with its place in the batch and the reason."""
        if not encoded.unplaced and not encoded.placed and not self._last_unplaced:
            self._note_positions(batch.take(pa.array(sorted(set(encoded.places)), pa.int64())))
            return
        sources, positions = batch.column("source").to_pylist(), batch.column("position").to_pylist()
        arrived = batch.column("arrived").to_pylist()
        for place in sorted(set(encoded.places)):
            source, position = sources[place], positions[place]
            if arrived[place]:
                why = None if self._follows(encoded, place) else _BEFORE
            else:
                why = self._break(source, position, encoded, place)
            if why is not None:
                yield place, why

    def _break(self, source: str, position: str, encoded: Encoded, place: int) -> str | None:
        """What is wrong with the place of a change that has a position."""
        known, unplaced = self._last.get(source, ""), self._last_unplaced.get(source, "")
        self._last[source] = max(known, position)
        if place not in encoded.unplaced:
            self._some_placed = True
            if position < unplaced:
                return _LATE
        else:
            self._last_unplaced[source] = max(unplaced, position)
            if position < known:
                return _LATE
            if self._some_placed and place not in encoded.placed:
                return _BEHIND
        if not self._follows(encoded, place):
            return _BEFORE
        return (
            _SIDES if self._halves and place in encoded.placed and self._is_behind_its_other(source, position) else None
        )

    def _note_positions(self, batch: pa.RecordBatch) -> None:
        """Changes that were written as they are."""
        for source in pc.unique(batch.column("source")).to_pylist():
            own = batch.filter(pc.and_(pc.equal(batch.column("source"), source), pc.invert(batch.column("arrived"))))
            if own.num_rows:
                self._some_placed = True
                self._last[source] = max(self._last.get(source, ""), pc.max(own.column("position")).as_py())

    def _follows(self, encoded: Encoded, place: int) -> bool:
        """Whether a record is in order whose position differs from its change's, or that comes after such a record."""
        placed = encoded.placed.get(place)
        if placed is None:
            return True
        self._given = self._given or not placed.own
        if self._given and placed.parts < self._highest:
            return False
        self._highest = max(self._highest, placed.parts)
        return True

    def _is_behind_its_other(self, source: str, position: str) -> bool:
        """Whether a record with a later half of the same sequence id came before, which readers cannot see from positions."""
        number, _, side = position.rpartition(".")
        last = self._sides.get((source, number), "")
        self._sides[source, number] = max(last, side)
        if len(self._sides) > _RECENT:
            del self._sides[next(iter(self._sides))]
        return side < last
