"""A snapshot of tables while it is being read."""

from dataclasses import dataclass

from changeling.model.position import encode
from changeling.postgres.published_table import PublishedTable
from changeling.postgres.slot import ExportedSnapshot
from changeling.sources.postgres_capture import Held
from changeling.sources.postgres_plan import Part, Snapshot, batch
from changeling.sources.postgres_reading import Tables
from changeling.sources.source import Foreseen


@dataclass
class RunningSnapshot:
    """What is left of it, and what it is for."""

    point: ExportedSnapshot
    held: Held
    left: list[Part]
    asked: dict[str, str]
    """What was asked for when it began."""
    again: bool
    anew: bool
    begun: bool = False

    def plan(self, system: str, position: int, most: int) -> Snapshot:
        """The next parts, at most so many; `position` is where the stream goes on."""
        parts = batch(self.left, most)
        return Snapshot(
            system,
            self.point.lsn,
            parts,
            position,
            self.held.moment,
            {name: self.held.prints[name] for name in (part.table.spelled() for part in parts if part.last)},
            again=self.again,
            anew=self.anew and not self.begun,
        )

    def foreseen(self, plan: Snapshot, tables: Tables) -> list[Foreseen]:
        """The schemas of the tables in a plan."""
        found = {part.table.spelled(): part.table for part in plan.parts}
        told = {
            name: PublishedTable(self.held.relations[name], tables.rules_of(table.schema or "", table.name))
            for name, table in found.items()
        }
        return [Foreseen(table, told[name].schema_text, encode(plan.point, 0)) for name, table in found.items()]

    def took(self, plan: Snapshot) -> bool:
        """Notes what is in the log; whether that was the last of it."""
        if plan.point == self.point.lsn:
            self.begun = True
            self.left = [part for part in self.left if part not in plan.parts]
        return not self.left
