"""A changefeed's record on the wire: its members, its modes, its stamps, and the shell that keeps its shape."""

from enum import StrEnum
from itertools import combinations

import msgspec

from changeling.model import position, times
from changeling.model.change import Change
from changeling.model.errors import Rejected, nearest

FLAGS = ("update", "reset", "erase")
"""What happened to the row: a record has exactly one."""
MEMBERS = frozenset({"key", *FLAGS, "newImage", "oldImage", "ts", "resolved", "tableChanges"})
"""What a record says about the change; any other member (`user`) is kept as it is."""
UINT64 = 2**64
_NANOS_PER_MS = 1_000_000


class Mode(StrEnum):
    """What a changefeed's records contain of the row."""

    KEYS_ONLY = "KEYS_ONLY"
    UPDATES = "UPDATES"
    NEW_IMAGE = "NEW_IMAGE"
    OLD_IMAGE = "OLD_IMAGE"
    NEW_AND_OLD_IMAGES = "NEW_AND_OLD_IMAGES"

    @staticmethod
    def named(name: str | None) -> "Mode | None":
        """The mode of that name in any case, None for none; raises ValueError with the closest known name."""
        if name is None:
            return None
        found = Mode.__members__.get(name.upper())
        if found is None:
            raise ValueError(f"there is no mode {name!r}; {nearest(name.upper(), Mode.__members__)}")
        return found

    @property
    def has_new_image(self) -> bool:
        """Its records show the row after the change."""
        return self in (Mode.NEW_IMAGE, Mode.NEW_AND_OLD_IMAGES)

    @property
    def has_old_image(self) -> bool:
        """Its records show the row before the change."""
        return self in (Mode.OLD_IMAGE, Mode.NEW_AND_OLD_IMAGES)


def _plain_orders() -> frozenset[tuple[str, ...]]:
    """The orders of members that the seed shows: a record in one of them needs no shell.

    `reset` with `newImage` is left out, since a change alone does not show which of the two contained the row.
    """
    rest = ("newImage", "oldImage", "ts")
    tails = [tail for size in range(4) for tail in combinations(rest, size)]
    rows = {("key", flag, *tail) for flag in FLAGS for tail in tails if flag != "reset" or "newImage" not in tail}
    return frozenset({*rows, ("resolved",)})


PLAIN_ORDERS = _plain_orders()

_pair = msgspec.json.Decoder(tuple[int, int]).decode


def read_stamp(name: str, raw: msgspec.Raw) -> tuple[int, int]:
    """The step and the transaction's id of `ts` or `resolved`; raises `Rejected` if they are no such pair."""
    try:
        step, transaction = _pair(raw)
    except msgspec.DecodeError:
        step = transaction = -1
    if not (0 <= step < UINT64 and 0 <= transaction < UINT64):
        raise Rejected(f"`{name}` must be [step, txId], two whole numbers of 64 bits")
    return step, transaction


def commit_time_of(step: int) -> int | None:
    """The coordinator's milliseconds as nanoseconds; None for a step too far off to be a time."""
    try:
        return times.from_units(step, _NANOS_PER_MS)
    except Rejected:
        return None


def stamp_of(change: Change) -> tuple[int, int] | None:
    """The change's position as step and txId, where it is of that kind and agrees with the commit time."""
    parts = position.decode(change.position) if change.position is not None else ()
    if len(parts) != 2 or max(parts) >= UINT64:
        return None
    if change.commit_time is not None and change.commit_time != parts[0] * _NANOS_PER_MS:
        return None
    return parts[0], parts[1]


def print_stamp(stamp: tuple[int, int]) -> bytes:
    """The stamp as the wire has it."""
    return b"[%d,%d]" % stamp
