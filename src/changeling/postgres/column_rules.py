"""Rules for the columns of a table: which of them are captured, and which are masked or hashed."""

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
    """Never captured, even where they are included."""
    mask: tuple[str, ...] = ()
    """Captured as `***`."""
    hash: tuple[str, ...] = ()
    """Captured as the SHA-256 of the salt and the value's text, in hex."""
    salt: str = ""
    present: tuple[str, ...] = ()
    """The columns that the table has; empty where the rules are for a pattern of tables."""

    def treatment(self, name: str) -> Treatment | None:
        """How a column is captured; None where it is not."""
        if _matches(name, self.exclude) or (self.include and not _matches(name, self.include)):
            return None
        if _matches(name, self.mask):
            return "masked"
        return "hashed" if _matches(name, self.hash) else "plain"

    def check(self, relation: Relation) -> None:
        """Raises `UsageError` where they hide the key of the table, or may fail to hide a column.

        A hashed column can be part of the key.
        """
        self._check_names(relation)
        for name in relation.key:
            treatment = self.treatment(name)
            if treatment in (None, "masked"):
                how = "masked" if treatment else "left out"
                raise UsageError(
                    f"{relation.table}: the column {name!r} is part of the key, so it cannot be {how}: hash it"
                )

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that they name without wildcards."""
        return tuple(
            name for name in (*self.include, *self.exclude, *self.mask, *self.hash) if not set(name) & set("*?[")
        )

    def _check_names(self, relation: Relation) -> None:
        """A column under another name than in the rules, in an older or newer schema, must not be captured by mistake."""
        names = [column.name for column in relation.columns]
        missing = [name for name in self.named if name not in names]
        strange = [name for name in names if name not in self.present and self.treatment(name) == "plain"]
        if self.present and missing and strange:
            raise UsageError(
                f"{relation.table}: a rule names the column {missing[0]!r}, which the table does not have in a part of the log where "
                f"it has {strange[0]!r}. If one was renamed to the other, write patterns that match both, such as "
                f"[{missing[0]}*, {strange[0]}*]: they hold whatever the column was called"
            )


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
