"""Transactions of a stream: which changes of a chunk are emitted, and the ordinal of each in its transaction.

Everything is computed for all messages of a chunk at once, so small transactions cost no more per row than large ones.
"""

from typing import NamedTuple

import numpy as np

from changeling.model.errors import ChangelingError
from changeling.postgres.frames import Frames
from changeling.postgres.tuples import numbers

BEGIN, COMMIT, TRUNCATE, MESSAGE = (ord(letter) for letter in "BCTM")
INSERT, UPDATE, DELETE = (ord(letter) for letter in "IUD")
_SHORTEST = np.zeros(256, np.int64)
"""The minimum length of messages by letter; 0 for unknown letters."""
_SHORTEST[[ord(letter) for letter in "BCORYIUDTM"]] = [21, 26, 10, 10, 7, 8, 8, 8, 6, 15]
_ROWS = np.zeros(256, np.int64)
_ROWS[[INSERT, UPDATE, DELETE]] = 1
_MICROS_TO_2000 = 946_684_800_000_000


class PlacedChanges(NamedTuple):
    """The emitted changes of a chunk, in the order of the stream. Transactions are numbered within this chunk."""

    messages: np.ndarray
    """The message of each change; a truncate of several tables is one change for each."""
    inner: np.ndarray
    """The index of the change in its message."""
    ordinals: np.ndarray
    """Its number in its transaction, from 1; 0 for a message outside of any."""
    transactions: np.ndarray
    complete: np.ndarray
    """Whether it is known to end its transaction."""
    outside: np.ndarray
    """Whether it belongs to no transaction: then it gets one of its own, of which only the LSN is valid."""
    xids: np.ndarray
    """Of each transaction, like the next two fields."""
    lsns: np.ndarray
    times: np.ndarray
    """Nanoseconds since 1970."""


class _Open(NamedTuple):
    """A transaction that has not ended yet."""

    xid: int
    lsn: int
    time: int
    ordinal: int
    """The ordinal of its last change."""
    emitted: bool
    """Whether any of its changes was emitted."""


_NONE = _Open(0, -1, 0, 0, False)


class Transactions:
    """Tracks the transactions of a stream, and emits those that commit from `start` on and before `end`."""

    def __init__(self, start: int, end: int) -> None:
        self._start, self._end = start, end
        self._open: _Open | None = None

    def place(self, frames: Frames) -> PlacedChanges:
        """The changes of the next chunk.

        A commit is included only if its transaction has changes in earlier chunks and none in this one.
        """
        data, starts, letters = frames.data, frames.starts, frames.letters
        _check_letters(frames)
        begins, commits = letters == BEGIN, letters == COMMIT
        free = _outside_of_transactions(frames)
        weights = _weights(frames, free)
        self._check_order(begins, commits, weights)

        carried, began = self._open or _NONE, starts[begins]
        xids = np.append(carried.xid, numbers(data, began + 17, ">u4"))
        lsns = np.append(carried.lsn, numbers(data, began + 1, ">i8"))
        times = np.append(carried.time, (numbers(data, began + 9, ">i8") + _MICROS_TO_2000) * 1000)
        owners, counted = np.cumsum(begins), np.cumsum(weights)
        bases = np.append(-carried.ordinal, counted[begins])
        firsts = counted - weights - bases[owners] + 1

        shown = np.where(self._wanted(lsns)[owners], weights, 0)
        ends = np.flatnonzero(commits)
        if carried.emitted and len(ends) and not shown[: ends[0]].any():
            shown[ends[0]] = 1
        ended = np.zeros(len(lsns), bool)
        ended[owners[ends]] = True
        self._open = None
        if not ended[-1] and lsns[-1] >= 0:
            last = int(counted[-1] if len(counted) else 0) - int(bases[-1])
            emitted = bool(shown[owners == len(began)].any()) or (not len(began) and carried.emitted)
            self._open = _Open(int(xids[-1]), int(lsns[-1]), int(times[-1]), last, emitted)

        free_lsns = numbers(data, starts[free] + 2, ">i8")
        wanted = self._wanted(free_lsns)
        alone, nothing = free[wanted], np.zeros(np.count_nonzero(wanted), np.int64)
        shown[alone], firsts[alone] = 1, 0
        owners[alone] = len(lsns) + np.arange(len(alone))

        messages = np.repeat(np.arange(len(letters)), shown)
        inner = np.arange(len(messages)) - (np.cumsum(shown) - shown)[messages]
        transactions = owners[messages]
        outside = transactions >= len(lsns)
        return PlacedChanges(
            messages,
            inner,
            firsts[messages] + inner,
            transactions,
            _last_of_each(transactions, outside, ended),
            outside,
            np.append(xids, nothing),
            np.append(lsns, free_lsns[wanted]),
            np.append(times, nothing),
        )

    def _wanted(self, lsns: np.ndarray) -> np.ndarray:
        return (lsns >= self._start) & (lsns < self._end)

    def _check_order(self, begins: np.ndarray, commits: np.ndarray, weights: np.ndarray) -> None:
        depths = int(self._open is not None) + np.cumsum(begins) - np.cumsum(commits)
        if ((depths < 0) | (depths > 1) | ((weights > 0) & (depths != 1))).any():
            raise ChangelingError(
                "the replication stream has changes outside of transactions: was it read from its middle?"
            )


def _check_letters(frames: Frames) -> None:
    least = _SHORTEST[frames.letters]
    if not least.all():
        letter = chr(frames.letters[np.argmin(least)])
        raise ChangelingError(
            f"the replication stream has messages of kind {letter!r}, which are not supported:"
            " start it with proto_version 1 or 2, and without streaming"
        )
    if (frames.ends - frames.starts < least).any():
        raise ChangelingError("the replication stream has a message that ends too early")


def _outside_of_transactions(frames: Frames) -> np.ndarray:
    """The logical messages that were not written as part of a transaction."""
    logical = np.flatnonzero(frames.letters == MESSAGE)
    free: np.ndarray = logical[frames.data[frames.starts[logical] + 1] & 1 == 0]
    return free


def _weights(frames: Frames, free: np.ndarray) -> np.ndarray:
    """How many changes of its transaction each message has."""
    weights: np.ndarray = _ROWS[frames.letters]
    weights[frames.letters == MESSAGE] = 1
    weights[free] = 0
    truncates = np.flatnonzero(frames.letters == TRUNCATE)
    tables = numbers(frames.data, frames.starts[truncates] + 1, ">i4")
    if (tables * 4 + 6 != (frames.ends - frames.starts)[truncates]).any():
        raise ChangelingError("the replication stream has a truncate whose length does not match its tables")
    weights[truncates] = tables
    return weights


def _last_of_each(transactions: np.ndarray, outside: np.ndarray, ended: np.ndarray) -> np.ndarray:
    """Which changes are the last of a transaction that has ended."""
    inside = np.flatnonzero(~outside)
    owners = transactions[inside]
    complete = np.zeros(len(transactions), bool)
    complete[inside] = np.append(owners[1:] != owners[:-1], True)[: len(owners)] & ended[owners]
    return complete
