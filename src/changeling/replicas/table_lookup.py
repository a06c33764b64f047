"""Which table a user means: by as much of its name as was given, and by its source where several have one of that name."""

from collections.abc import Iterable
from dataclasses import dataclass

from changeling.model.errors import UsageError, nearest
from changeling.model.table import TableName


@dataclass(frozen=True)
class WantedTable:
    """A table as the user names it; without a source it may be of any."""

    name: TableName
    source: str | None = None

    def __str__(self) -> str:
        return str(self.name) if self.source is None else f"{self.name} of source {self.source}"

    def among(self, known: Iterable[tuple[str, TableName]]) -> tuple[str, TableName] | None:
        """The one of these tables, each with its source, that is meant; None where none has the name.

        Of the source's tables, one whose name is the same letter for letter goes before one that only fits. Raises
        `UsageError` where several are left, or where only other sources have the table.
        """
        named = {place for place in known if _may_be(self.name, place[1])}
        own = {place for place in named if self.source in (None, place[0])}
        if named and not own:
            sources = ", ".join(sorted({source for source, _ in named}))
            raise UsageError(f"source {self.source} has no table {self.name}; of that name there is one of {sources}")
        fitting = sorted({place for place in own if _parts(place[1]) == _parts(self.name)} or own, key=str)
        if len(fitting) > 1:
            choices = ", ".join(f"{table} of {source}" for source, table in fitting)
            raise UsageError(f"several tables are called {self}: {choices}; {_advice(fitting)}")
        return fitting[0] if fitting else None

    def nearest(self, known: Iterable[TableName]) -> str:
        """The hint where no table is meant: the closest of these, by as many parts of their names as were given."""
        given = len(_parts(self.name))
        ends = (_parts(table)[-given:] for table in known)
        return nearest(self.name.spelled(), {TableName(*[None] * (3 - len(end)), *end).spelled() for end in ends})  # type: ignore[arg-type]


def _may_be(wanted: TableName, table: TableName) -> bool:
    """Whether a table may be the wanted one: their names are equal as far as both go, from the end on.

    So `shop.users` is a table of the schema `shop`, or one of the database `shop` where that has no schemas.
    """
    pairs = zip(reversed(_parts(wanted)), reversed(_parts(table)), strict=False)
    return all(part == own for part, own in pairs)


def _parts(table: TableName) -> list[str]:
    return [part for part in (table.catalog, table.schema, table.name) if part is not None]


def _advice(places: list[tuple[str, TableName]]) -> str:
    """How to say which of several tables is meant."""
    sources = list(dict.fromkeys(source for source, _ in places))
    if len(sources) < len(places):
        return "write more of the name"
    return f"say which with {' or '.join(f'--source {source}' for source in sources)}"
