"""Which values are their own canonical form, judged by their text: most are, and need no conversion of their own."""

import functools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.text_columns import Mask, as_mask
from changeling.model.types import INTEGER_RANGES, Type

_DAY = r"[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
"""Days that every month has."""
_THREE = r"(?:[0-9]{2}[1-9]|[0-9][1-9]0|[1-9]00)"
_CLOCK = rf"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.(?:[0-9]{{3}}){{0,2}}{_THREE})?"
"""The fraction of a second has 3, 6 or 9 digits, the fewest that are exact."""
_HEX = "[0-9a-f]"
_PATTERNS = {
    "bool": "true|false",
    "string": '"',
    "bytes": '"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"',
    "date": f'"{_DAY}"',
    "time": f'"{_CLOCK}"',
    "timestamp": f'"{_DAY}T{_CLOCK}"',
    "timestamptz": f'"{_DAY}T{_CLOCK}Z"',
    "uuid": f'"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"',
    "float32": r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?",
    "float64": r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?",
}


def are_canonical(values: pa.Array, kind: Type) -> Mask:
    """Whether `canonical.reader` of this type certainly returns each value (of valid JSON) as it is."""
    if kind.kind == "json":
        return np.ones(len(values), np.bool_)
    if kind.kind == "string":
        return as_mask(pc.starts_with(values, b'"'))
    pattern = _pattern(kind)
    if pattern is None:
        return np.zeros(len(values), np.bool_)
    return as_mask(pc.match_substring_regex(values, f"^(?:{pattern})$"))


@functools.lru_cache(maxsize=4096)
def _pattern(kind: Type) -> str | None:
    if kind.kind in INTEGER_RANGES:
        low, high = INTEGER_RANGES[kind.kind]
        # One digit less than the largest number has: these are all in range.
        return f"0|{'-?' if low else ''}[1-9][0-9]{{0,{len(str(high)) - 2}}}"
    if kind.kind == "decimal":
        scale = 60 if kind.scale is None else kind.scale
        whole = 60 if kind.precision is None or kind.scale is None else kind.precision - kind.scale
        before_point = f"0|[1-9][0-9]{{0,{whole - 1}}}" if whole > 0 else "0"
        behind_point = rf"(?:\.[0-9]{{1,{scale}}})?" if scale > 0 else ""
        return f'"-?(?:{before_point}){behind_point}"'
    return _PATTERNS.get(kind.kind)
