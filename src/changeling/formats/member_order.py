"""The order in which an object has its members: what is written in another than the usual one is kept as it stands."""

import functools

import msgspec

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def is_usual(text: bytes | msgspec.Raw, usual: tuple[str, ...]) -> bool:
    """Whether the members of an object come in this order; any of them may be left out, others come behind them."""
    return _follows(tuple(_members(text)), usual)


@functools.lru_cache(maxsize=4096)
def _follows(names: tuple[str, ...], usual: tuple[str, ...]) -> bool:
    known = tuple(name for name in usual if name in names)
    return names[: len(known)] == known
