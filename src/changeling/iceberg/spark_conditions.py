"""Conditions on rows as Spark takes them."""

import operator
from collections.abc import Callable
from typing import Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    NotEqualTo,
    NotNull,
    Or,
    Reference,
    UnboundTerm,
)
from pyspark.sql import Column
from pyspark.sql import functions as f

from changeling.iceberg.conditions import Condition

_COMPARISONS: dict[type[LiteralPredicate], Callable[[Any, Any], Any]] = {
    EqualTo: operator.eq,
    NotEqualTo: operator.ne,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}


def spark_condition(condition: Condition) -> Column:
    """A condition as a column of Spark."""
    match condition:
        case AlwaysTrue() | AlwaysFalse():
            return f.lit(isinstance(condition, AlwaysTrue))
        case And():
            return spark_condition(condition.left) & spark_condition(condition.right)
        case Or():
            return spark_condition(condition.left) | spark_condition(condition.right)
        case IsNull():
            return _column(condition.term).isNull()
        case NotNull():
            return _column(condition.term).isNotNull()
        case In():
            return _column(condition.term).isin([literal.value for literal in condition.literals])
        case LiteralPredicate():
            compared: Column = _COMPARISONS[type(condition)](_column(condition.term), condition.literal.value)
            return compared
    raise AssertionError(f"Spark knows no condition such as {condition}")


def _column(term: UnboundTerm) -> Column:
    assert isinstance(term, Reference)
    return f.col(term.root)
