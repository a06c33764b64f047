"""Queries the server of a PostgreSQL source, from outside of a run. Needs no Spark."""

from changeling.model.table import TableName
from changeling.sources.postgres_capture import Capture
from changeling.sources.postgres_settings import CaptureSettings


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
