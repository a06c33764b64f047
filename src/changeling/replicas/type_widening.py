"""Converts stored values of one type into a wider one: the result is what reading the changes again would store."""

from decimal import Decimal
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as f

from changeling.model import json_text
from changeling.model.json_numbers import without_zeros
from changeling.model.types import Type
from changeling.replicas.stored_types import are_spelled_alike, is_exact_decimal, sql_type

_ESCAPED = ("\\", '"', *map(chr, range(0x20)))
"""What JSON does not have in a text as it is. The backslash is first: the others bring some along."""


def converted(value: Column, old: Type, new: Type) -> Column:
    """A column of values as another type stores them."""
    if old.item is not None and new.item is not None:
        inner, wanted = old.item, new.item
        if are_spelled_alike(inner, wanted) and sql_type(inner) == sql_type(wanted):
            return value
        return f.transform(value, lambda item: converted(item, inner, wanted))
    if not are_spelled_alike(old, new) and sql_type(old) == sql_type(new):
        return _quoted(value)
    return value if sql_type(old) == sql_type(new) else value.cast(sql_type(new))


def plainly_converted(value: Column, old: Type, new: Type) -> Column:
    """The same for columns where equal numbers are equal texts: those of a key, and those that no schema declares.

    Zeros at the end of the fraction are left out, and exponents.
    """
    becomes_text = new.kind == "json" or (new.kind == "decimal" and not is_exact_decimal(new))
    if becomes_text and old.kind == "float64":
        # Java's spelling of a double is not always the shortest.
        return f.udf(_plain_text, "string", useArrow=False)(value)
    made = converted(value, old, new)
    if becomes_text and is_exact_decimal(old):
        return f.regexp_replace(f.regexp_replace(made, r"(\.[0-9]*?)0+$", "$1"), r"\.$", "")
    return made


def _plain_text(number: float | None) -> str | None:
    return None if number is None else without_zeros(f"{Decimal(repr(number)):f}")


def _quoted(text: Column) -> Column:
    """A text as JSON spells it, with the fewest escapes."""

    def escaped(made: Column, letter: str) -> Column:
        return f.replace(made, f.lit(letter), f.lit(json_text.quote(letter)[1:-1].decode()))

    return f.concat(f.lit('"'), reduce(escaped, _ESCAPED, text), f.lit('"'))
