"""Counts and sizes as people read them: `1 file`, `2,041 records`, `16.2 MB`."""

_EXACT_BELOW = 100_000
_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"))


def counted(number: int, noun: str) -> str:
    """A number with its noun, which gets an s unless there is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def sized(amount: int) -> str:
    """A number of bytes; of a large one, what counts."""
    if amount < _EXACT_BELOW:
        return counted(amount, "byte")
    size, unit = next((known for known in _UNITS if amount >= known[0]), _UNITS[-1])
    return f"{amount / size:,.1f} {unit}"
