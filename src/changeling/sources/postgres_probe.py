"""Queries the server of a PostgreSQL source from outside of a run: its tables, and whether they can be captured. Needs no Spark."""

from contextlib import closing
from dataclasses import dataclass

import psycopg
from psycopg import sql

from changeling.model.table import TableName
from changeling.postgres import catalog, readiness
from changeling.postgres.catalog import Connection
from changeling.postgres.connection import connect, unreachable
from changeling.postgres.fingerprint import fingerprints
from changeling.postgres.readiness import Server
from changeling.postgres.rows import Blocks, read_rows
from changeling.postgres.slot import Slot
from changeling.sources.postgres_capture import Capture
from changeling.sources.postgres_settings import CaptureSettings
from changeling.sources.postgres_tables import CapturedTables

_PATIENCE = {"lock_timeout": "5s"}
"""Somebody may be altering a table."""
_SAMPLED_TABLES = 20


def matching_tables(settings: CaptureSettings) -> list[TableName]:
    """The tables that match the patterns of a source, whether or not they can be captured."""
    with closing(connect(settings.url)) as connection:
        try:
            return [one.table for one in catalog.tables(connection, settings.tables)]
        except psycopg.Error as error:
            raise unreachable(settings.url, error) from None


class ServerProbe:
    """Queries the server of a source; changes nothing that is captured."""

    def __init__(self, settings: CaptureSettings) -> None:
        self._capture = Capture(settings)

    def __enter__(self) -> "ServerProbe":
        self._capture.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._capture.close()

    def tables(self) -> list[TableName]:
        """The tables that are captured."""
        return [one.table for one in self._capture.found]

    def present(self) -> int:
        """The end of the server's log."""
        return self._capture.present()

    def mark(self) -> None:
        """Writes a message into the server's log: a running pipeline reads up to there, even if nothing else is written."""
        self._capture.mark()


@dataclass(frozen=True)
class Captured:
    """What a run would capture."""

    tables: list[TableName]
    left_out: dict[TableName, str]
    """Tables that match and cannot be captured as they are, and why."""
    warnings: list[str]
    rows: int
    """The rows that were read of the first block of tables, and decoded."""


def check_ready(settings: CaptureSettings) -> None:
    """Raises `ChangelingError` where the server cannot be reached, or lacks something that every capture needs."""
    with closing(connect(settings.url)) as connection:
        try:
            _looked(connection, readiness.server(connection), settings)
        except psycopg.Error as error:
            raise unreachable(settings.url, error) from None


def check_capture(settings: CaptureSettings, *, begun: bool) -> Captured:
    """As `check_ready`, and checks the slot, the rules for columns, and a few rows of the first tables.

    `begun`: the log already has changes of this source.
    """
    with closing(connect(settings.url, settings=_PATIENCE)) as connection:
        try:
            server = readiness.server(connection)
            settings.claim().check(connection)
            _check_slot(connection, settings, begun=begun)
            with connection.transaction(force_rollback=True):
                chosen = CapturedTables(settings)
                chosen.look(connection, server, readiness.server_needs(connection))
                if not begun:
                    # Later, rules may name columns that have been dropped since.
                    prints = fingerprints(connection, chosen.found, settings.publications)
                    chosen.check_rules(prints, lambda name: None)
                rows = _sampled_rows(connection, server, chosen)
        except psycopg.Error as error:
            raise unreachable(settings.url, error) from None
    return Captured([one.table for one in chosen.found], chosen.left_out, chosen.warnings(), rows)


def _looked(connection: Connection, server: Server, settings: CaptureSettings) -> None:
    with connection.transaction(force_rollback=True):
        CapturedTables(settings).look(connection, server, readiness.server_needs(connection))


def _check_slot(connection: Connection, settings: CaptureSettings, *, begun: bool) -> None:
    capture, status = Capture(settings), Slot(settings.url, settings.slot).status(connection)
    if (lost := capture.lost(status, 0 if begun and status is None else None)) is not None:
        raise capture.refused(lost)


def _sampled_rows(connection: Connection, server: Server, chosen: CapturedTables) -> int:
    """Decodes the rows of the first block of some tables; returns how many there are."""
    tables, found = chosen.for_tasks(), chosen.found[:_SAMPLED_TABLES]
    relations = catalog.relations(connection, found, stored_generated=server.publishes_generated)
    rows = 0
    for one, relation in zip(found, relations, strict=True):
        schema, name = one.table.schema or "", one.table.name
        rules, condition = tables.rules_of(schema, name), dict(tables.filters).get((schema, name))
        for leaf in catalog.leaves(connection, one.oid)[:1]:
            place = sql.Identifier(leaf.schema, leaf.name)
            sampled = read_rows(connection, relation, place, Blocks(0, 1), rules, condition)
            rows += sum(part.num_rows for part in sampled)
    return rows
