"""What a server lacks to be captured: all of it in one message, with the statements that mend it."""

from collections.abc import Iterable

import msgspec

from changeling.model.errors import ChangelingError
from changeling.model.table import TableName


class Need(msgspec.Struct, frozen=True):
    """One thing that is missing."""

    what: str
    """For people, with the way out."""
    statements: tuple[str, ...] = ()
    """What an administrator runs, without semicolons."""
    table: TableName | None = None
    """The table that lacks it, where others may be captured without."""


def unmet(source: str, needs: Iterable[Need]) -> ChangelingError:
    """The error of all needs; its statements can be run as they stand, in their order."""
    needs = list(needs)
    lines = [
        f"source {source}: the database cannot be captured as it is; nothing was altered:",
        *(one.what for one in needs),
    ]
    statements = list(dict.fromkeys(statement for one in needs for statement in one.statements))
    if statements:
        lines += ["all that an administrator has to run, in this order:", *(f"  {one};" for one in statements)]
    return ChangelingError("\n  ".join(lines))
