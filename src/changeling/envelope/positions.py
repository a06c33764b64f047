"""Positions as columns."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.text_columns import as_mask

_LENGTHS = [f"{digits:02d}" for digits in range(100)]
_COMPONENT = r"^[0-9]{2}(?:0|[1-9][0-9]*)$"


def positions(*components: pa.Array) -> pa.Array:
    """Positions of these integers (of 64 bits); null where one of them is null or negative."""
    parts: list[pa.Array | str] = []
    for component in components:
        if (pc.min(component).as_py() or 0) < 0:
            component = pc.if_else(pc.greater_equal(component, 0), component, None)
        digits = component.cast(pa.string())
        parts += [pa.array(_LENGTHS, pa.string()).take(pc.binary_length(digits)), digits, "."]
    return pc.binary_join_element_wise(*parts[:-1], "")


def are_positions(texts: pa.Array) -> Any:
    """Whether each text is a position, as `position.decode` sees it."""
    split = pc.split_pattern(texts, ".")
    parts = split.flatten()
    fits = pc.match_substring_regex(parts, _COMPONENT)
    lengths = pc.if_else(fits, pc.utf8_slice_codeunits(parts, 0, 2), None).cast(pa.int32())
    fits = pc.fill_null(pc.equal(lengths, pc.subtract(pc.utf8_length(parts), 2)), False)
    if pc.all(fits).as_py():
        return as_mask(pc.is_valid(texts))
    wrong = pc.list_parent_indices(split).filter(pc.invert(fits))
    found = as_mask(pc.is_valid(texts)).copy()
    found[wrong.to_numpy()] = False
    return found
