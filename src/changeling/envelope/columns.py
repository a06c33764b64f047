"""Cells of many records or changes, as columns: a list of values, a column of Arrow, or distinct values and where they are."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.cells import Absent, Cell, Cells, Condition, Reason, as_bytes
from changeling.envelope.shapes import ShapeMismatch
from changeling.envelope.text_columns import Mask, as_mask, distinct, is_one_of, joined
from changeling.model import arrow_layouts
from changeling.model.operation import Operation


class Distinct(NamedTuple):
    """A column of few values: these, and which of them each record has."""

    values: list[Any]
    places: pa.Array


class Structs:
    """Objects of known members: each attribute is the column of one."""

    def __init__(self, names: Sequence[str], structs: Sequence[Any]) -> None:
        self.structs = structs
        # Every struct is visited once, for all of its leaves: most of the time is spent on fetching them from memory.
        if None in structs:
            nothing = (None,) * len(names)
            rows: Iterable[Any] = (nothing if one is None else msgspec.structs.astuple(one) for one in structs)
        else:
            rows = map(msgspec.structs.astuple, structs)
        self.__dict__.update(zip(names, zip(*rows, strict=True), strict=True))


class Attributes:
    """The attributes of a column of few values, which may be missing."""

    def __init__(self, column: Distinct) -> None:
        self._column = column

    def __getattr__(self, name: str) -> Distinct:
        values, places = self._column
        return Distinct([None if value is None else getattr(value, name) for value in values], places)


class Fields:
    """The fields of a column of structs, null where the struct is."""

    def __init__(self, structs: pa.StructArray) -> None:
        names = [structs.type.field(place).name for place in range(structs.type.num_fields)]
        self.__dict__.update(zip(names, structs.flatten(), strict=True))


class Columns(Cells):
    """What needs no look into JSON: conditions, choices, functions of values."""

    is_columnar = True

    def __init__(self, count: int) -> None:
        self.count = count
        self._plain: Mask | None = None

    def expect(self, condition: Condition, reason: Reason = "") -> None:
        found = condition if isinstance(condition, np.ndarray) else as_mask(condition)
        self._plain = found if self._plain is None else self._plain & found

    def check(self) -> None:
        """Raises `ShapeMismatch` where some records must leave."""
        if self._plain is not None and not self._plain.all():
            raise ShapeMismatch(self._plain)

    def usually(self, condition: Condition) -> bool:
        self.expect(condition)
        self.check()
        return True

    def branch(self, condition: Condition) -> bool:
        first = bool(condition[0])
        self.usually(condition == first)
        return first

    def refuse(self, reason: Reason) -> NoReturn:
        raise ShapeMismatch(np.zeros(self.count, np.bool_))

    def one_by_one(self) -> None:
        self.refuse("")

    def any(self, condition: Condition) -> bool:
        return bool(condition.any())

    def all(self, condition: Condition) -> bool:
        return bool(condition.all())

    def each(self, function: Callable[..., Any], *cells: Cell) -> Cell:
        self.check()
        rows, places = self._distinct(cells)
        made, failed = [], []
        for row in rows:
            try:
                made.append(function(*row))
            except (ValueError, RecursionError):
                made.append(None)
                failed.append(len(made) - 1)
        if failed:
            self.usually(~np.isin(places.to_numpy(), failed))
        return Distinct(made, places)

    def each_row(self, function: Callable[..., Any], *cells: Cell) -> Cell:
        self.check()
        columns = [self._listed(cell) for cell in cells]
        try:
            return list(map(function, *columns))
        except (ValueError, RecursionError):
            self.usually(np.fromiter(map(_accepts(function), *columns), np.bool_, self.count))
            raise

    def holds(self, function: Callable[..., bool], *cells: Cell) -> Condition:
        found = self.each(function, *cells)
        return np.array(found.values, np.bool_)[found.places.to_numpy()]

    def common(self, cell: Cell) -> Any:
        found = self._coded(cell)
        first = found.values[found.places[0].as_py()]
        self.usually(np.array([value == first for value in found.values], np.bool_)[found.places.to_numpy()])
        return first

    def limit(self, value: Cell, count: int) -> None:
        found = self._coded(value)
        if len(found.values) > count:
            self.usually(found.places.to_numpy() < count)

    def _listed(self, cell: Cell) -> Sequence[Any]:
        if isinstance(cell, Structs):
            return cell.structs
        if isinstance(cell, Distinct):
            return [cell.values[place] for place in cell.places.to_pylist()]
        if isinstance(cell, pa.StructArray):
            return arrow_layouts.transactions(cell)
        return cell.to_pylist() if isinstance(cell, pa.Array) else [cell] * self.count

    def _distinct(self, cells: Sequence[Cell]) -> tuple[list[tuple[Any, ...]], pa.Array]:
        """The distinct rows of some cells, and which of them each record has."""
        columns = [self._coded(cell) for cell in cells]
        varying = [place for place, column in enumerate(columns) if len(column.values) > 1]
        if not varying:
            return [tuple(column.values[0] for column in columns)], pa.array(np.zeros(self.count, np.int32))
        codes = columns[varying[0]].places.to_numpy().astype(np.int64)
        if len(varying) == 1:
            (own,) = varying
            values = [[column.values[0]] * len(columns[own].values) for column in columns]
            values[own] = columns[own].values
            return list(zip(*values, strict=True)), columns[own].places
        for place in varying[1:]:
            codes = codes * len(columns[place].values) + columns[place].places.to_numpy()
        _, firsts, places = np.unique(codes, return_index=True, return_inverse=True)
        at = pa.array(firsts)
        rows = [[column.values[code] for code in column.places.take(at).to_pylist()] for column in columns]
        return list(zip(*rows, strict=True)), pa.array(places.astype(np.int32))

    def _coded(self, cell: Cell) -> Distinct:
        if isinstance(cell, Distinct):
            return cell
        if isinstance(cell, pa.Array):
            found = cell.dictionary_encode(null_encoding="encode")
            return Distinct(found.dictionary.to_pylist(), found.indices)
        if isinstance(cell, np.ndarray):
            return Distinct([False, True], pa.array(cell.astype(np.int32)))
        if isinstance(cell, list | tuple):
            if cell.count(cell[0]) == self.count:
                return Distinct([cell[0]], pa.array(np.zeros(self.count, np.int32)))
            if type(cell[0]) is str and set(map(type, cell)) == {str}:
                return self._coded(pa.array(cell, pa.string()))
            try:
                return Distinct(*distinct(cell))
            except TypeError:
                # Values that have no hash are not compared.
                return Distinct(list(cell), pa.array(np.arange(self.count, dtype=np.int32)))
        return Distinct([cell], pa.array(np.zeros(self.count, np.int32)))

    def array(self, cell: Cell, kind: pa.DataType | None = None) -> pa.Array:
        """A cell as a column of Arrow."""
        if isinstance(cell, Distinct):
            cell = pa.array(cell.values, kind).take(cell.places)
        elif isinstance(cell, list | tuple | np.ndarray):
            cell = pa.array(cell, kind)
        elif not isinstance(cell, pa.Array):
            cell = pa.repeat(pa.scalar(cell, kind), self.count)
        return cell if kind is None or cell.type == kind else cell.cast(kind)

    def _operand(self, cell: Cell) -> Any:
        """A cell as Arrow's functions take it, which know constants."""
        return self.array(cell) if isinstance(cell, Distinct | list | tuple) else cell

    def mask(self, truth: Any) -> Condition:
        if isinstance(truth, bool):
            return np.full(self.count, truth)
        return truth if isinstance(truth, np.ndarray) else as_mask(truth)

    def present(self, cell: Cell) -> Condition:
        if isinstance(cell, Distinct):
            return np.array([value is not None for value in cell.values], np.bool_)[cell.places.to_numpy()]
        if cell is None or not isinstance(cell, Distinct | list | tuple | pa.Array):
            return np.full(self.count, cell is not None)
        return as_mask(pc.is_valid(self.array(cell)))

    def equal(self, cell: Cell, other: Cell) -> Condition:
        if cell is None or other is None:
            return np.zeros(self.count, np.bool_)
        one, two = self._operand(cell), self._operand(other)
        if not isinstance(one, pa.Array):
            if not isinstance(two, pa.Array):
                return np.full(self.count, as_bytes(one) == as_bytes(two))
            one, two = two, one
        return as_mask(pc.equal(one, _like(two, one.type)))

    def one_of(self, cell: Cell, values: Collection[str]) -> Condition:
        if cell is None:
            return np.zeros(self.count, np.bool_)
        return as_mask(is_one_of(self.array(cell, pa.string()), values))

    def where(self, condition: Condition, cell: Cell, other: Cell) -> Cell:
        if condition.all():
            return cell
        if not condition.any():
            return other
        one, two = self._operand(cell), self._operand(other)
        if isinstance(one, pa.Array):
            two = _like(two, one.type)
        elif isinstance(two, pa.Array):
            one = _like(one, two.type)
        return pc.if_else(pa.array(condition), one, two)

    def first(self, *cells: Cell) -> Cell:
        given = [self._operand(cell) for cell in cells if cell is not None]
        given = [cell for cell in given if not isinstance(cell, pa.Array) or cell.null_count < len(cell)]
        if not given:
            return None
        if not isinstance(given[0], pa.Array) or not given[0].null_count:
            return given[0]
        return pc.coalesce(given[0], *(_like(cell, given[0].type) for cell in given[1:]))

    def joined(self, *parts: Cell) -> Cell:
        if any(part is None for part in parts):
            return None
        given = [self._operand(part) for part in parts]
        return joined(*given) if any(isinstance(part, pa.Array) for part in given) else b"".join(given)

    def as_text(self, cell: Cell) -> Cell:
        if cell is None:
            return None
        try:
            return self.array(cell, pa.string())
        except (pa.ArrowInvalid, TypeError):
            return pa.array([one if isinstance(one, str) else None for one in cell], pa.string())

    def plus(self, number: Cell, other: Cell) -> Cell:
        return None if number is None or other is None else pc.add_checked(number, other)

    def at_least(self, number: Cell, least: int) -> Cell:
        return None if number is None else pc.max_element_wise(number, least, skip_nulls=False)

    def int_or_text(self, cell: Cell, name: str) -> Cell:
        if cell is None:
            return None
        if isinstance(cell, pa.Array):
            return cell.cast(pa.int64())
        try:
            return pa.array(cell, pa.int64())
        except (pa.ArrowInvalid, TypeError, OverflowError):
            first = next(type(one) for one in cell if one is not None)
            self.usually(np.fromiter((one is None or _is_alike(one, first) for one in cell), np.bool_))
            return self.parse_int(self.array(cell, pa.string()))

    def less(self, number: Cell, limit: int) -> Condition:
        given = self.array(number, pa.int64())
        return self.present(given) if limit >= 2**63 else as_mask(pc.less(given, limit))

    def fields(self, struct: Cell) -> Any:
        if isinstance(struct, Distinct):
            return Attributes(struct)
        if struct is None or isinstance(struct, pa.StructArray):
            return Absent() if struct is None else Fields(struct)
        known = next((one for one in struct if one is not None), None)
        return Absent() if known is None else Structs(known.__struct_fields__, struct)

    def lose(self, out: Any, condition: Condition, feature: str, why: Reason) -> None:
        if feature in out.drop:
            out.lost[feature] = out.lost.get(feature, np.zeros(self.count, np.bool_)) | condition
        else:
            self.expect(~condition)


def _is_alike(number: int | str, kind: type) -> bool:
    return type(number) is kind and (kind is str or abs(int(number)) < 2**63)


def _accepts(function: Callable[..., Any]) -> Callable[..., bool]:
    def accepts(*values: Any) -> bool:
        try:
            function(*values)
        except (ValueError, RecursionError):
            return False
        return True

    return accepts


def _like(value: Any, kind: pa.DataType) -> Any:
    """A column, or a constant, of the type of another one."""
    if isinstance(value, pa.Array):
        return value if value.type == kind else value.cast(kind)
    if isinstance(value, Operation):
        value = value.value
    return pa.scalar(value, kind)
