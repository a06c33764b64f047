"""The ledger of a folder of files: how far its feed is copied, and which file is being written.

Stored next to the files, so both are kept or lost together; readers of folders leave out names that begin with `_`.
"""

import msgspec

from changeling.feeds.feed import Feed
from changeling.feeds.file_ranges import FileRange
from changeling.files.output import Output
from changeling.files.paths import NoFileFound, expand, open_input
from changeling.model.errors import ChangelingError, UsageError

FOLDER = "_changeling"
VERSION = 1
_NAME = "ledger.json"
_MAX_BYTES = 16 * 1024 * 1024


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """What is in files."""

    version: int = VERSION
    feed: str
    """The feed's name, for people."""
    id: str
    next: list[int]
    """The first offset of each partition that is in no file."""
    planned: FileRange | None = None
    """The file that is being written: after an interruption it is written with the same records, and no others."""

    def after(self, file: FileRange) -> "Ledger":
        """The ledger once a file is complete."""
        following = [*self.next]
        following[file.partition] = file.until
        return msgspec.structs.replace(self, next=following, planned=None)


class LedgerFile:
    """The ledger of one folder. It changes at once or not at all."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._path = f"{place}/{FOLDER}/{_NAME}"

    def read(self, feed: Feed) -> Ledger | None:
        """The ledger of a feed; None as long as there is none.

        Raises `UsageError` where the folder is another feed's, or has files that no ledger knows.
        """
        try:
            (found,) = expand([self._path])
        except NoFileFound:
            self._check_empty(feed)
            return None
        with open_input(found) as source:
            text = source.read(_MAX_BYTES)
        try:
            ledger = msgspec.json.decode(text, type=Ledger)
        except msgspec.DecodeError as error:
            raise ChangelingError(f"{self._path}: is not a ledger of ours: {error}") from None
        if ledger.version != VERSION:
            raise ChangelingError(
                f"{self._path}: has version {ledger.version}, and this is a program for version {VERSION}"
            )
        if ledger.id != feed.id:
            raise UsageError(
                f"{self._place}: has the files of "
                + ("an earlier feed of this name" if ledger.feed == feed.name else f"the feed {ledger.feed!r}")
                + f"; give {feed.name!r} a folder of its own"
            )
        return ledger

    def write(self, ledger: Ledger) -> None:
        """Replaces it."""
        with Output(self._path) as output:
            output.write(msgspec.json.format(msgspec.json.encode(ledger)) + b"\n")

    def _check_empty(self, feed: Feed) -> None:
        try:
            first = expand([self._place])[0]
        except NoFileFound:
            return
        raise UsageError(f"{first.path}: there are files already; give the feed {feed.name!r} a folder of its own")
