"""What Spark calls to read: once, or as a stream whose offsets count plans."""

import logging
from collections.abc import Iterator
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from changeling.datasource.inputs import inputs, planner_of, rows
from changeling.datasource.plan_file import PlanFile
from changeling.datasource.settings import FilesPlace, Settings
from changeling.model.errors import UsageError
from changeling.sources.files import FilesSource
from changeling.sources.kafka_planner import KafkaPlanner

_LOG = logging.getLogger(__name__)
Offset: TypeAlias = dict[str, int]
"""How far a stream is: `plan` is the number of plans that are done."""


class ChangesReader(DataSourceReader):
    """Everything that is there when Spark plans the query."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def partitions(self) -> list[InputPartition]:
        """The parts of the input, one a task; raises `UsageError` where there are no files."""
        planner = planner_of(self._settings)
        planner.stop_at_present()
        parts: list[InputPartition] = []
        while (plan := planner.plan_next()) is not None:
            planner.remember(plan)
            parts += inputs(planner, plan)
        warnings = planner.warnings()
        if not parts and isinstance(self._settings.place, FilesPlace):
            raise UsageError("; ".join(warnings) or "there are no files to read")
        for warning in warnings:
            _LOG.warning("%s", warning)
        return parts

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one part; Spark gives None where there is none."""
        return iter(()) if partition is None else rows(self._settings, partition)


class ChangesStream(DataSourceStreamReader):
    """What there is, and what comes: each micro-batch has the plans that were added since the last one."""

    def __init__(self, settings: Settings) -> None:
        if settings.plans is None:
            raise UsageError(
                "a stream notes in a file what it is going to read: .option('plans', PATH), one file for each checkpoint"
            )
        self._settings, self._file = settings, settings.plans
        self._open: tuple[PlanFile, FilesSource | KafkaPlanner] | None = None

    def initialOffset(self) -> Offset:
        """Before the first plan."""
        return {"plan": 0}

    def latestOffset(self) -> Offset:
        """Plans what is new, up to the limits of a batch."""
        plans, planner = self._opened()
        plan = planner.plan_next()
        for warning in planner.warnings():
            _LOG.warning("%s", warning)
        if plan is not None:
            plans.add(plan)
            planner.remember(plan)
        return {"plan": len(plans)}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The parts of the plans of a micro-batch, one a task."""
        plans, planner = self._opened()
        return [part for plan in plans.between(start["plan"], end["plan"]) for part in inputs(planner, plan)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        return rows(self._settings, partition)

    def stop(self) -> None:
        """Lets another query have the file of plans."""
        if self._open is not None:
            self._open[0].close()

    def _opened(self) -> tuple[PlanFile, FilesSource | KafkaPlanner]:
        if self._open is None:
            plans, planner = PlanFile(self._file), planner_of(self._settings)
            for plan in plans.all():
                planner.remember(plan)
            self._open = plans, planner
        return self._open
