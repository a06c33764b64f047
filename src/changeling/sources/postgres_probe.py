"""Queries the server of a PostgreSQL source, from outside of a run. Needs no Spark."""

from contextlib import closing

import psycopg

from changeling.model.table import TableName
from changeling.postgres import catalog
from changeling.postgres.connection import connect, unreachable
from changeling.sources.postgres_capture import Capture
from changeling.sources.postgres_settings import CaptureSettings


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
