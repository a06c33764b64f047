"""Rules for the columns of a table: which of them are told, and which are hidden."""

from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from changeling.model.errors import UsageError
from changeling.postgres.relation import Relation

Treatment = Literal["plain", "masked", "hashed"]


class ColumnRules(msgspec.Struct, frozen=True):
    """Names of columns, or patterns with `*` and `?`. A column that is to be both masked and hashed is masked."""

    include: tuple[str, ...] = ()
    """Without any, all columns."""
    exclude: tuple[str, ...] = ()
    """Never told, even where they are included."""
    mask: tuple[str, ...] = ()
    """Told as `***`."""
    hash: tuple[str, ...] = ()
    """Told as the SHA-256 of the salt and the value's text, in hex."""
    salt: str = ""

    def treatment(self, name: str) -> Treatment | None:
        """How a column is told; None where it is not."""
        if _fits(name, self.exclude) or (self.include and not _fits(name, self.include)):
            return None
        if _fits(name, self.mask):
            return "masked"
        return "hashed" if _fits(name, self.hash) else "plain"

    def check(self, relation: Relation) -> None:
        """Raises `UsageError` where they hide what tells the table's rows apart. Hashes do that as well as values."""
        for name in relation.key:
            treatment = self.treatment(name)
            if treatment in (None, "masked"):
                how = "masked" if treatment else "left out"
                raise UsageError(
                    f"{relation.table}: the column {name!r} is part of the key, so it cannot be {how}: hash it"
                )


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
