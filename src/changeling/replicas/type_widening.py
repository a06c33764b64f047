"""Converts stored values of one type into a wider one: the result is what reading the changes again would store."""

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as f

from changeling.model import json_text
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


def key_converted(value: Column, old: Type, new: Type) -> Column:
    """The same for a column of the key, where equal numbers are equal texts: trailing zeros of the fraction are left out."""
    made = converted(value, old, new)
    if new.kind == "decimal" and is_exact_decimal(old) and not is_exact_decimal(new):
        return f.regexp_replace(f.regexp_replace(made, r"(\.[0-9]*?)0+$", "$1"), r"\.$", "")
    return made


def _quoted(text: Column) -> Column:
    """A text as JSON spells it, with the fewest escapes."""

    def escaped(made: Column, letter: str) -> Column:
        return f.replace(made, f.lit(letter), f.lit(json_text.quote(letter)[1:-1].decode()))

    return f.concat(f.lit('"'), reduce(escaped, _ESCAPED, text), f.lit('"'))
