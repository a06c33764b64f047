"""The root of all errors that users see; each kind has its exit code of the command line."""

import contextlib
import difflib
from collections.abc import Iterable, Iterator

from changeling.model.printable import printable

_MAX_PROPOSED = 3


class ChangelingError(Exception):
    """Something failed, and the message says where, what, and what to do."""

    exit_code = 1


class UsageError(ChangelingError):
    """A wrong call: the message says the right one."""

    exit_code = 2


class NotAllDropped(ChangelingError):
    """Something stays on a server: the message has the statements that drop it."""

    exit_code = 3


class LossError(ChangelingError):
    """Refused, because the target cannot carry what the changes have."""

    exit_code = 4


class Rejected(ValueError):
    """One record cannot be read; its text is the reason that the user sees."""


@contextlib.contextmanager
def inside(part: str) -> Iterator[None]:
    """Rejects a record where a part of it cannot be read: the reason names the part."""
    try:
        yield
    except ValueError as error:
        raise Rejected(f"{part}: {error}") from None


class CannotCarry(ValueError):
    """One change has something that the target format cannot express.

    `feature` is the name that `--drop` takes, `why` the sentence for people.
    """

    def __init__(self, feature: str, why: str) -> None:
        super().__init__(f"{feature}: {why}")
        self.feature = feature
        self.why = why


def nearest(name: str, known: Iterable[str]) -> str:
    """The hint after an unknown name: the known ones that begin with it if they are few, the closest one, else all of them."""
    choices = sorted(known)
    if meant := perhaps_meant(name, choices):
        return meant
    return f"known: {', '.join(map(printable, choices))}" if choices else "there are none"


def perhaps_meant(name: str, known: Iterable[str]) -> str | None:
    """The question whether a few known names are meant by one that is unknown; None where none is near it."""
    by_letters = {choice.casefold(): choice for choice in sorted(known)}
    close = [choice for letters, choice in by_letters.items() if len(name) > 1 and letters.startswith(name.casefold())]
    if not 0 < len(close) <= _MAX_PROPOSED:
        close = [by_letters[letters] for letters in difflib.get_close_matches(name.casefold(), by_letters, n=1)]
    if not close:
        return None
    *others, last = map(repr, close)
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"
