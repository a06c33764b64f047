"""The order of the members of an object: an unusual one is kept as it is."""

import functools


def follows(names: tuple[str, ...], usual: tuple[str, ...], needed: tuple[str, ...]) -> bool:
    """Whether these are members of an object in the usual order, no others, and all that are needed."""
    return set(needed) <= set(names) <= set(usual) and in_order(names, usual)


@functools.lru_cache(maxsize=4096)
def in_order(names: tuple[str, ...], usual: tuple[str, ...]) -> bool:
    """Whether the members of an object come in this order; any of them may be missing, others come after them."""
    known = tuple(name for name in usual if name in names)
    return names[: len(known)] == known
