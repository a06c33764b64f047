"""The cells of a group that are made in another way for each of its parts: by a value, or by the members of an object."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.cells import Cell, Members
from changeling.envelope.columns import Columns, Distinct
from changeling.envelope.shapes import Shape, ShapeMismatch, decoded
from changeling.envelope.text_columns import Places, as_mask, scattered

_SHAPES = 16
"""How many shapes of objects a group may have; records with others leave it."""
_names = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)


class Parts(Columns):
    """A group and its parts."""

    @abstractmethod
    def part(self, count: int) -> "Parts":
        """`count` of the records, as a group of their own."""

    def by_value(self, function: Callable[..., Sequence[Cell]], value: Cell, *cells: Cell) -> Sequence[Cell]:
        self.check()
        found = self._coded(value)
        codes = found.places.to_numpy()
        made = []
        for code in np.unique(codes):
            rows = np.flatnonzero(codes == code)
            made.append((rows, self._made(rows, function, found.values[code], cells)))
        return self._together(made)

    def by_shape(self, function: Callable[..., Sequence[Cell]], texts: Sequence[Cell], *cells: Cell) -> Sequence[Cell]:
        return self._by_shape(function, (), texts, cells)

    def _by_shape(
        self,
        function: Callable[..., Sequence[Cell]],
        known: Sequence[Members | None],
        texts: Sequence[Cell],
        cells: Sequence[Cell],
    ) -> Sequence[Cell]:
        """As `by_shape`, where the members of the texts in front are known: all records have the same shapes of these."""
        if not texts:
            return function(self, *known, *cells)
        first, *others = texts

        def with_members(part: Parts, members: Members | None, *taken: Any) -> Sequence[Cell]:
            own_known, own_others = taken[: len(known)], taken[len(known) : len(known) + len(others)]
            return part._by_shape(function, [*own_known, members], own_others, taken[len(known) + len(others) :])

        self.check()
        made = [
            (rows, self._made(rows, with_members, members, [*known, *others, *cells]))
            for rows, members in self._grouped_by_shape(first)
        ]
        return self._together(made)

    def _grouped_by_shape(self, text: Cell) -> list[tuple[Places, Members | None]]:
        """The members of each object (None where there is none), those of one shape together, and their places."""
        there = self.present(text)
        found: list[tuple[Places, Members | None]] = []
        if not there.all():
            found.append((np.flatnonzero(~there), None))
        if there.any():
            given = self.array(text, pa.binary())
            empty = as_mask(pc.equal(given, b"{}"))
            if empty.any():
                found.append((np.flatnonzero(empty), {}))
            found += self._shapes(given, np.flatnonzero(there & ~empty))
        return found

    def _shapes(self, texts: pa.Array, left: Places) -> list[tuple[Places, Members]]:
        """The members of these objects, those of one shape together."""
        found: list[tuple[Places, Members]] = []
        while len(left) and len(found) < _SHAPES:
            shape = Shape.of(texts[int(left[0])].as_py())
            rows = left
            while shape is not None and len(rows):
                try:
                    found.append((rows, dict(shape.members(texts.take(pa.array(rows))))))
                    break
                except ShapeMismatch as error:
                    rows = rows[error.plain]
            if shape is None or not len(rows):
                break
            left = left[~np.isin(left, rows, assume_unique=True)]
        if len(left):
            plain = np.ones(self.count, np.bool_)
            plain[left] = False
            raise ShapeMismatch(plain)
        return found

    def _made(
        self, rows: Places, function: Callable[..., Sequence[Cell]], by: Any, cells: Sequence[Cell]
    ) -> list[Cell]:
        part = self.part(len(rows))
        try:
            own = function(part, by, *(self._taken(cell, rows) for cell in cells))
            part.check()
        except ShapeMismatch as error:
            plain = np.ones(self.count, np.bool_)
            plain[rows] = error.plain
            raise ShapeMismatch(plain) from None
        return [None if cell is None else part.array(cell) for cell in own]

    def _together(self, made: Sequence[tuple[Places, Sequence[Cell]]]) -> list[Cell]:
        """The cells of the parts at the places of their records."""
        found = []
        for column in zip(*(own for _, own in made), strict=True):
            given = [(rows, cell) for (rows, _), cell in zip(made, column, strict=True) if cell is not None]
            if len({str(cell.type) for _, cell in given}) > 1:
                given = [(rows, cell.cast(pa.binary())) for rows, cell in given]
            found.append(scattered(given, self.count))
        return found

    def _taken(self, cell: Cell, rows: Places) -> Cell:
        """The cell, or all members, of some of the records; None where none of them has a value."""
        if isinstance(cell, dict):
            return {name: self._taken(value, rows) for name, value in cell.items()}
        if isinstance(cell, Distinct):
            return Distinct(cell.values, cell.places.take(pa.array(rows)))
        if isinstance(cell, np.ndarray):
            return cell[rows]
        if not isinstance(cell, pa.Array):
            return cell
        found = cell if len(rows) == self.count else cell.take(pa.array(rows))
        return None if found.null_count == len(found) else found

    def each_object(self, function: Callable[..., Any], text: Cell, *others: Cell) -> Cell:
        there = self.present(text)
        if not there.any():
            return None
        self.check()
        rows = pa.array(np.flatnonzero(there))
        columns = []
        for given in (text, *others):
            one = pa.nulls(self.count, pa.binary()) if given is None else self.array(given, pa.binary())
            columns.append(decoded(pc.fill_null(one.take(rows), b"null"), _names))
        return scattered([(rows.to_numpy(), pa.array(map(function, *columns), size=len(rows)))], self.count)
