"""One writer: a run locks its pipeline, and a second run gets an error that names the holder."""

import fcntl
import getpass
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from changeling.model.errors import ChangelingError


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who holds a pipeline, or held it last."""

    process: int
    host: str
    user: str
    since: str
    doing: str
    until: str | None = None
    error: str | None = None
    """What ended it, where it did not end well and no source is to blame."""
    errors: dict[str, str] = {}
    """What went wrong last with each source."""
    left_out: dict[str, dict[str, str]] = {}
    """The tables of each source that cannot be captured as they are, and why."""
    complete: dict[str, datetime] = {}
    """The time up to which all that each source had is in the log."""

    def to_text(self) -> str:
        """As JSON."""
        return msgspec.json.encode(self).decode()

    def __str__(self) -> str:
        return f"`{self.doing}`, process {self.process} of {self.user} on {self.host}, since {self.since}"


@contextmanager
def held(file: Path, pipeline: str, doing: str) -> Iterator["Lock"]:
    """Locks the pipeline; raises `ChangelingError` where another process holds the lock. The system releases it when a process dies."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "a+b") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = last_holder(file)
            raise ChangelingError(
                f"pipeline {pipeline} is held by {who or 'another process'}: one writer at a time; stop it first"
            ) from None
        lock = Lock(file, Holder(os.getpid(), socket.gethostname(), _user(), _now(), doing))
        try:
            yield lock
        except BaseException as error:
            lock.ended(str(error) or type(error).__name__)
            raise
        finally:
            lock.let_go()


class Lock:
    """A lock that is held; `status` reads what it says about its holder. Any thread of the holder may add to that."""

    def __init__(self, file: Path, holder: Holder) -> None:
        self._file, self._holder = file, holder
        self._writing = threading.Lock()
        self._write()

    @property
    def holder(self) -> Holder:
        """Who holds it."""
        return self._holder

    def failed(self, error: str | None, source: str) -> None:
        """Notes the last error of a source, or that all is well again."""
        with self._writing:
            others = {name: text for name, text in self._holder.errors.items() if name != source}
            errors = others if error is None else {**others, source: error}
            self._holder = msgspec.structs.replace(self._holder, errors=errors)
            self._write()

    def leaves_out(self, tables: dict[str, str], source: str) -> None:
        """Notes the tables that a source skips."""
        with self._writing:
            if tables == self._holder.left_out.get(source, {}):
                return
            others = {name: found for name, found in self._holder.left_out.items() if name != source}
            left_out = {**others, source: tables} if tables else others
            self._holder = msgspec.structs.replace(self._holder, left_out=left_out)
            self._write()

    def log_complete_until(self, until: datetime, source: str) -> None:
        """Notes up to which time the log has all of a source, to the second."""
        with self._writing:
            complete = {**self._holder.complete, source: until.replace(microsecond=0)}
            if complete != self._holder.complete:
                self._holder = msgspec.structs.replace(self._holder, complete=complete)
                self._write()

    def ended(self, error: str) -> None:
        """Notes what ended the holder, unless a source is to blame."""
        if not self._holder.errors:
            self._holder = msgspec.structs.replace(self._holder, error=error)

    def let_go(self) -> None:
        """Notes the end."""
        self._holder = msgspec.structs.replace(self._holder, until=_now())
        self._write()

    def _write(self) -> None:
        # Overwritten in place: a file renamed over this one would be a different file, which nobody has locked.
        with open(self._file, "r+b") as file:
            file.write(msgspec.json.encode(self._holder) + b"\n")
            file.truncate()


def last_holder(file: Path) -> Holder | None:
    """Who holds the pipeline or held it last; None where nobody ever did."""
    try:
        return holder_of(file.read_bytes())
    except OSError:
        return None


def holder_of(text: str | bytes | None) -> Holder | None:
    """The holder that a text describes; None where it describes none."""
    try:
        return None if not text else msgspec.json.decode(text, type=Holder)
    except msgspec.DecodeError:
        return None


def is_held(file: Path) -> bool:
    """Whether a process holds the pipeline now."""
    try:
        with open(file, "rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
