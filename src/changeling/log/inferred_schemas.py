"""Columns that no schema declares: the types that their values need, and what to declare where that is text."""

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING

from changeling.log.schema_evolution import common
from changeling.model import types
from changeling.model.json_numbers import ANY_SIZE, DOUBLE, INTEGER, LONG, are_numbers
from changeling.model.json_text import quote
from changeling.model.printable import printable
from changeling.model.table import Column, TableName, TableSchema

if TYPE_CHECKING:
    from changeling.log.task_result import TableSample

_TYPE_OF = {"bool": "bool", INTEGER: "int64", DOUBLE: "float64", ANY_SIZE: "decimal", "text": "string", "json": "json"}
_KIND_OF = {name: kind for kind, name in _TYPE_OF.items()}
_DOUBLES = "double"
"""The original type of exact numbers that are all doubles as well: the column may become one of doubles."""


def inferred(sample: "TableSample", before: TableSchema | None) -> TableSchema:
    """The columns of a sample together with those that are known."""
    kinds = {name: set(found) for name, found in sample.columns.items()}
    for column in before.columns if before is not None else ():
        kinds.setdefault(column.name, set()).update(_kinds_of(column))
    order = [column.name for column in before.columns] if before is not None else []
    names = [*order, *(name for name in kinds if name not in order)]
    key = before.key if before is not None and before.key else sample.key
    return TableSchema(tuple(_column(name, kinds[name]) for name in names if kinds[name]), key)


def doubles(schema: TableSchema) -> list[str]:
    """The columns of an inferred schema whose exact numbers are all doubles as well, so far."""
    return [column.name for column in schema.columns if column.original_type == _DOUBLES]


def advice(table: TableName, schema: TableSchema, before: TableSchema | None) -> Iterator[str]:
    """What to write for columns that are stored as text from now on though their values are numbers: reported once."""
    known = () if before is None else before.columns
    texts = [column.name for column in schema.columns if column.type == "decimal" and column not in known]
    if texts:
        declared = ", ".join(f'{quote(name).decode()}: "double"' for name in texts)
        yield (
            f"{', '.join(map(printable, texts))}: numbers of more digits than a decimal or a double has, stored as text. For a "
            f"column of doubles, which rounds them, or of a decimal, which quarantines those that do not fit, write under tables: - "
            f"{{name: {quote(table.spelled()).decode()}, columns: {{{declared}}}}}"
        )


def _kinds_of(column: Column) -> set[str]:
    """What the values of a column need that was inferred before."""
    kind = column.type if column.canonical.precision is not None else _KIND_OF[column.type]
    exact = kind != DOUBLE and are_numbers([kind])
    return {kind, LONG} if exact and column.original_type != _DOUBLES else {kind}


def _column(name: str, kinds: set[str]) -> Column:
    """The narrowest type that holds values of all kinds exactly: JSON where they are mixed."""
    if not are_numbers(kinds):
        return Column(name, "json" if len(kinds) > 1 else _TYPE_OF[next(iter(kinds))])
    kind = _number(kinds)
    are_doubles = LONG not in kinds and kind not in ("float64", "decimal")
    return Column(name, kind, _DOUBLES if are_doubles else None)


def _number(kinds: set[str]) -> str:
    if ANY_SIZE in kinds:
        return "decimal"
    if DOUBLE not in kinds:
        exact = [types.parse(_TYPE_OF.get(kind, kind)) for kind in sorted(kinds - {LONG})]
        held = str(reduce(lambda one, other: common(one, other) or types.Type("decimal"), exact))
        if held != "decimal":
            return held
    return "decimal" if LONG in kinds else "float64"
