"""Which table a user means: by as much of its name as was given, and by its source where several have one of that name."""

from collections.abc import Iterable
from dataclasses import dataclass

from changeling.model.errors import UsageError
from changeling.model.table import TableName


@dataclass(frozen=True)
class WantedTable:
    """A table as it is asked for; without a source it may be of any."""

    name: TableName
    source: str | None = None

    def __str__(self) -> str:
        return str(self.name) if self.source is None else f"{self.name} of source {self.source}"

    def among(self, known: Iterable[tuple[str, TableName]]) -> tuple[str, TableName] | None:
        """The one of these tables, each with its source, that is meant; None where none has the name.

        A name that is the same letter for letter goes before one that only fits. Raises `UsageError` where several are left,
        or where only other sources have the table.
        """
        named = {place for place in known if self.name.fits(place[1])}
        named = {place for place in named if str(place[1]) == str(self.name)} or named
        fitting = sorted((place for place in named if self.source in (None, place[0])), key=str)
        if named and not fitting:
            sources = ", ".join(sorted({source for source, _ in named}))
            raise UsageError(f"source {self.source} has no table {self.name}; of that name there is one of {sources}")
        if len(fitting) > 1:
            choices = ", ".join(f"{table} of {source}" for source, table in fitting)
            raise UsageError(f"several tables are called {self}: {choices}; {_advice(fitting)}")
        return fitting[0] if fitting else None


def _advice(places: list[tuple[str, TableName]]) -> str:
    """How to say which of several tables is meant."""
    sources = list(dict.fromkeys(source for source, _ in places))
    if len(sources) < len(places):
        return "write more of the name"
    return f"say which with {' or '.join(f'--source {source}' for source in sources)}"
