"""A listener that shows nothing: what Python callers get unless they bring one."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from changeling.log.ingest import Report
    from changeling.replicas.merge import Report as Merged
    from changeling.sources.source import Spread
    from changeling.targets.postgres_target import TargetReport


class Quiet:
    """Says nothing."""

    def starts(self, source: str, batch: "Spread") -> None:
        """Nothing."""

    def done(self, report: "Report") -> None:
        """Nothing."""

    def merged(self, report: "Merged") -> None:
        """Nothing."""

    def mirrored(self, report: "TargetReport") -> None:
        """Nothing."""

    def warns(self, source: str, text: str) -> None:
        """Nothing."""

    def waits(self) -> None:
        """Nothing."""
