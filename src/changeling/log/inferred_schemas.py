"""Columns that no schema declares: the types that their values need, and what to declare where that is text."""

from collections.abc import Iterator

from changeling.log.task_result import Sampled
from changeling.model.json_text import quote
from changeling.model.printable import printable
from changeling.model.table import Column, TableName, TableSchema


def inferred(sample: Sampled, before: TableSchema | None) -> TableSchema:
    """The columns of a sample together with those that are known."""
    kinds = {name: set(found) for name, found in sample.columns.items()}
    for column in before.columns if before is not None else ():
        kinds.setdefault(column.name, set()).add(_KIND_OF[column.type])
    order = [column.name for column in before.columns] if before is not None else []
    names = [*order, *(name for name in kinds if name not in order)]
    key = before.key if before is not None and before.key else sample.key
    return TableSchema(tuple(Column(name, _type(kinds[name])) for name in names if kinds[name]), key)


def advice(table: TableName, schema: TableSchema, before: TableSchema | None) -> Iterator[str]:
    """What to write for columns that are stored as text from now on though their values are numbers: told once."""
    known = () if before is None else before.columns
    texts = [column.name for column in schema.columns if column.type == "decimal" and column not in known]
    if texts:
        declared = ", ".join(f'{quote(name).decode()}: "decimal(18,2)"' for name in texts)
        yield (
            f"{', '.join(map(printable, texts))}: numbers of any size, stored as text. For columns of numbers, with the digits that "
            f"they have, write under tables: - {{name: {quote(table.spelled()).decode()}, columns: {{{declared}}}}}"
        )


_TYPE_OF = {"bool": "bool", "int": "int64", "number": "decimal", "text": "string", "json": "json"}
_KIND_OF = {name: kind for kind, name in _TYPE_OF.items()}


def _type(kinds: set[str]) -> str:
    """The narrowest type that holds values of all kinds exactly: JSON where they are mixed."""
    if kinds == {"int", "number"}:
        return "decimal"
    return "json" if len(kinds) > 1 else _TYPE_OF[next(iter(kinds))]
