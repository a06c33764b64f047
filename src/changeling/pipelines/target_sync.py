"""The targets of a pipeline: after each merge they are moved to the newest point, independently of each other."""

from typing import TYPE_CHECKING

from changeling.iceberg.lake import Lake
from changeling.iceberg.lock import Lock
from changeling.model.errors import ChangelingError
from changeling.pipelines.failures import Failures, Retry
from changeling.pipelines.listener import Listener
from changeling.pipelines.loading import LoadedPipeline
from changeling.replicas.points import Point
from changeling.replicas.tables import ReplicaTables

if TYPE_CHECKING:
    from changeling.targets.postgres_target import PostgresTarget


class TargetSync:
    """All targets of one run."""

    def __init__(self, loaded: LoadedPipeline, lake: Lake, lock: Lock, listener: Listener) -> None:
        self._loaded, self._listener = loaded, listener
        self._failures = Failures(loaded, lock, listener)
        self.reached: dict[str, int] = {}
        """The point that each target is at."""
        self._targets = {one: Retry() for one in targets_of(loaded, lake)}

    def step(self, newest: Point, replicas: ReplicaTables, *, once: bool) -> None:
        """Moves the targets that are not at the newest point. One that fails is retried later; with `once`, it is an error."""
        failed: list[ChangelingError] = []
        for target, retry in self._targets.items():
            if not once and not retry.due():
                continue
            try:
                report = target.step(newest, replicas)
            except ChangelingError as error:
                self._failures.failed(target.name, error, None if once else retry)
                failed.append(error)
                continue
            self.reached[target.name] = (newest if report is None else report.point).number
            self._failures.succeeded(target.name, retry)
            if report is not None:
                self._listener.on_target_synced(report)
                for text in report.warnings:
                    self._listener.on_warning(target.name, self._loaded.redacted(text))
        if once and failed:
            raise failed[0]


def targets_of(loaded: LoadedPipeline, lake: Lake) -> "list[PostgresTarget]":
    """The targets of a pipeline."""
    definition = loaded.definition
    if not definition.targets:
        return []
    # PostgreSQL's driver is an extra.
    from changeling.targets.postgres_target import PostgresTarget

    return [PostgresTarget(lake, one.name, one.url, one.tables, definition.name) for one in definition.targets]
