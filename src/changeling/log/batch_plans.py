"""The plans of batches: what each batch is to read is recorded before it is read."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from changeling.iceberg.failpoints import reach
from changeling.iceberg.table_definition import StoredTables
from changeling.log import log_tables

if TYPE_CHECKING:
    from changeling.iceberg.lake import Lake

READ, REPLAY = "read", "replay"


class BatchPlan(msgspec.Struct, frozen=True):
    """One attempt at one batch."""

    batch: int
    attempt: int
    kind: str
    text: str
    planned_at: datetime | None = None
    """When it was recorded; None before that."""


def stored_plans(tables: StoredTables) -> Iterator[tuple[str, BatchPlan]]:
    """The plans of all sources in order, each with its source, as the table `batches` has them."""
    rows = sorted(tables.rows(log_tables.BATCHES).to_pylist(), key=lambda row: (row["batch"], row["attempt"]))
    for row in rows:
        yield row["source"], BatchPlan(row["batch"], row["attempt"], row["kind"], row["plan"], row["planned_at"])


def last_attempts(plans: Iterable[BatchPlan]) -> list[BatchPlan]:
    """The last attempt at each batch, in order."""
    by_batch = {plan.batch: plan for plan in plans}
    return list(by_batch.values())


class BatchPlans:
    """The plans of all sources, as the writing process has them."""

    def __init__(self, lake: "Lake") -> None:
        self._lake = lake
        self._last: dict[str, BatchPlan] = {}
        self._all: dict[str, list[BatchPlan]] = {}
        for source, plan in stored_plans(lake):
            self._note(source, plan)

    def of(self, source: str) -> list[BatchPlan]:
        """The last attempt at each batch, in order."""
        return last_attempts(self._all.get(source, ()))

    def last(self, source: str) -> BatchPlan | None:
        """The newest."""
        return self._last.get(source)

    def add(self, source: str, plan: BatchPlan) -> None:
        """Records a plan."""
        reach("plan.before")
        moment = datetime.now(UTC)
        row = {
            "source": source,
            "batch": plan.batch,
            "attempt": plan.attempt,
            "kind": plan.kind,
            "plan": plan.text,
            "planned_at": moment,
        }
        self._lake.append_rows(log_tables.BATCHES, [row], moment)
        reach("plan.after")
        self._note(source, msgspec.structs.replace(plan, planned_at=moment))

    def _note(self, source: str, plan: BatchPlan) -> None:
        self._last[source] = plan
        self._all.setdefault(source, []).append(plan)
