"""Times of day with a zone: the canonical type `time` holds both, so only a dialect's own name of the type says which it is."""

_ZONED = ("time with time zone", "timetz", "zonedtime")


def is_zoned(original_type: str | None) -> bool:
    """Whether a dialect's name of a type of times, or of arrays of them, is that of times with a zone."""
    name = (original_type or "").lower()
    return any(part in name for part in _ZONED)
