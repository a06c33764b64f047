"""What a conversion loses: counted where the user allowed it, else collected for one refusal that names all of it."""

from collections import Counter
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from changeling.formats.encoding import Encoded
from changeling.model import layout
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
        for reason, feature, origin in zip(reasons, features, layout.origins(rejects), strict=True):
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
_BEFORE = "the position that the record gets is before that of an earlier record, and readers go by it"


class OutputOrder:
    """Whether an output whose records do not carry positions is in the order of the positions."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}
        self._highest: tuple[int, ...] = ()
        self._given = False

    def breaks(self, batch: pa.RecordBatch, encoded: Encoded) -> Iterator[tuple[int, str]]:
        """The changes of a batch that are out of order, each with its place in the batch and the reason."""
        if not encoded.dropped["position"] and not encoded.placed:
            self._note_positions(batch)
            return
        sources, positions = batch.column("source").to_pylist(), batch.column("position").to_pylist()
        arrived = batch.column("arrived").to_pylist()
        for place in sorted(set(encoded.places)):
            source, position = sources[place], positions[place]
            late = not arrived[place] and position < self._last.get(source, "")
            if not late and not arrived[place]:
                self._last[source] = position
            if late and encoded.dropped["position"]:
                yield place, _LATE
            elif not self._follows(encoded, place):
                yield place, _BEFORE

    def _note_positions(self, batch: pa.RecordBatch) -> None:
        for source in pc.unique(batch.column("source")).to_pylist():
            own = batch.filter(pc.and_(pc.equal(batch.column("source"), source), pc.invert(batch.column("arrived"))))
            if own.num_rows:
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
