"""Drops what a capture created on its server when its pipeline is removed."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

import psycopg
from psycopg import sql

from changeling.model.errors import ChangelingError
from changeling.postgres.catalog import Connection
from changeling.postgres.claim import drop_slot
from changeling.postgres.connection import connect, unreachable
from changeling.postgres.publication import Publication
from changeling.postgres.slot import Slot
from changeling.sources.postgres_settings import CaptureSettings


@dataclass(frozen=True)
class Removed:
    """What was dropped, and the statements for what the user may not drop."""

    dropped: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def drop(self, name: str, drop: Callable[[], object], statement: str) -> None:
        """Drops one thing; if the user may not, keeps the statement for somebody who may."""
        try:
            drop()
            self.dropped.append(name)
        except psycopg.errors.InsufficientPrivilege:
            self.left.append(statement)


def remove(settings: CaptureSettings) -> Removed:
    """Drops the slot, the publications and the claim on the slot, as far as the user may. Those of another log stay.

    Raises `ChangelingError` where the slot is claimed by a log and this pipeline has none.
    """
    with closing(connect(settings.url)) as connection:
        try:
            return _remove(connection, settings)
        except psycopg.Error as error:
            raise unreachable(settings.url, error) from None


def _remove(connection: Connection, settings: CaptureSettings) -> Removed:
    claim, slot, removed = settings.claim(), Slot(settings.url, settings.slot), Removed()
    if claim.others(connection):
        if not settings.reader:
            raise ChangelingError(
                f"source {settings.name}: the slot {slot.name} is read by a log, and this pipeline has none. If that log no longer exists, run "
                f"{claim.way_out(connection)}"
            )
        return removed
    if slot.status(connection) is not None:
        if not claim.is_held(connection):
            # Nothing says that it is this log's: whoever reads it would lose changes.
            removed.left.append(f"-- Only if nobody reads the slot {slot.name}, which no log has claimed:")
            removed.left.append(drop_slot(slot.name))
            return removed
        removed.drop(f"slot {slot.name}", partial(slot.drop, connection), drop_slot(slot.name))
    for publication in map(Publication, settings.publications):
        if publication.exists(connection):
            statement = f"DROP PUBLICATION {sql.Identifier(publication.name).as_string(None)};"
            removed.drop(f"publication {publication.name}", partial(publication.drop, connection), statement)
    # Last: until everything is dropped, nobody else may claim the slot.
    for marker in claim.markers(connection):
        dropping = partial(connection.execute, "SELECT pg_drop_replication_slot(%s)", (marker,))
        removed.drop(f"slot {marker}", dropping, drop_slot(marker))
    return removed
