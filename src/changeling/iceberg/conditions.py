"""Conditions on the rows of a table, in PyIceberg's terms: whoever reads with it uses them as they are, Spark has them translated.

A member of a struct is a column as well: `table.name`. A comparison with NULL selects nothing.
"""

from collections.abc import Iterable
from typing import TypeAlias

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotNull,
    Or,
    Reference,
    UnboundPredicate,
)

Condition: TypeAlias = BooleanExpression
Value: TypeAlias = str | int | bool
EVERYTHING: Condition = AlwaysTrue()

# PyIceberg's own signatures take a name and a value; what its types say comes from another library.


def equals(column: str, value: Value) -> Condition:
    """The column has a value."""
    return EqualTo(column, value)  # type: ignore[call-arg, arg-type]


def differs(column: str, value: Value) -> Condition:
    """The column has another value."""
    return NotEqualTo(column, value)  # type: ignore[call-arg, arg-type]


def above(column: str, value: Value) -> Condition:
    """The column is greater than a value."""
    return GreaterThan(column, value)  # type: ignore[call-arg, arg-type]


def at_least(column: str, value: Value) -> Condition:
    """The column is a value or greater."""
    return GreaterThanOrEqual(column, value)  # type: ignore[call-arg, arg-type]


def below(column: str, value: Value) -> Condition:
    """The column is less than a value."""
    return LessThan(column, value)  # type: ignore[call-arg, arg-type]


def at_most(column: str, value: Value) -> Condition:
    """The column is a value or less."""
    return LessThanOrEqual(column, value)  # type: ignore[call-arg, arg-type]


def one_of(column: str, values: Iterable[Value]) -> Condition:
    """The column has one of some values."""
    return In(column, set(values))  # type: ignore[call-arg, arg-type]


def is_null(column: str) -> Condition:
    """The column is NULL."""
    return IsNull(column)  # type: ignore[call-arg, arg-type]


def is_set(column: str) -> Condition:
    """The column is not NULL."""
    return NotNull(column)  # type: ignore[call-arg, arg-type]


def all_of(conditions: Iterable[Condition]) -> Condition:
    """All of these hold."""
    return _joined(And, list(conditions), AlwaysTrue())


def any_of(conditions: Iterable[Condition]) -> Condition:
    """One of these holds, or several."""
    return _joined(Or, list(conditions), AlwaysFalse())


def columns_in(condition: Condition) -> set[str]:
    """The columns that a condition is about, structs by their own name."""
    if isinstance(condition, And | Or):
        return columns_in(condition.left) | columns_in(condition.right)
    if isinstance(condition, UnboundPredicate) and isinstance(condition.term, Reference):
        return {condition.term.root.partition(".")[0]}
    return set()


def _joined(join: type[And] | type[Or], parts: list[Condition], nothing: Condition) -> Condition:
    # Joined by one call, thousands of parts make a flat tree.
    return join(*parts) if len(parts) > 1 else parts[0] if parts else nothing
