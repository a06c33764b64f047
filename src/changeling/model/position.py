"""Positions: the total order inside one source, as text that sorts bytewise in any engine.

Each component is a non-negative integer of under 100 digits without leading zeros, written as two digits of length and
its digits; components are joined by `.`: (12350, 2) is `0512350.012`.
"""

from changeling.model.errors import Rejected

_LIMIT = 10**99
_LENGTHS = [f"{digits:02d}" for digits in range(100)]


def encode(*components: int) -> str:
    """The sortable text of a position; raises `Rejected` if a component is negative or has 100 digits or more."""
    parts = []
    for component in components:
        if component < 0:
            raise Rejected(f"a position cannot be negative, got {component}")
        if component >= _LIMIT:
            raise Rejected("a position component has 100 digits or more")
        digits = str(component)
        parts.append(_LENGTHS[len(digits)] + digits)
    return ".".join(parts)


def decode(position: str) -> tuple[int, ...]:
    """The components of a sortable text; raises `Rejected` if it is not one."""
    components = []
    for part in position.split("."):
        digits = part[2:]
        if not (part.isascii() and part.isdigit() and digits and len(digits) == int(part[:2])) or (
            digits[0] == "0" and len(digits) > 1
        ):
            raise Rejected(f"{position!r} is not a position")
        components.append(int(digits))
    return tuple(components)
