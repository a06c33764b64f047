"""The plans of batches: what each batch is to read is recorded before it is read."""

from datetime import UTC, datetime

import msgspec

from changeling.iceberg.failpoints import reach
from changeling.iceberg.lake import Lake
from changeling.log import layout

READ, REPLAY = "read", "replay"


class Plan(msgspec.Struct, frozen=True):
    """One attempt at one batch."""

    batch: int
    attempt: int
    kind: str
    text: str


class Plans:
    """The plans of all sources, as the table `batches` has them."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._last: dict[str, Plan] = {}
        self._all: dict[str, list[Plan]] = {}
        rows = sorted(lake.rows(layout.BATCHES).to_pylist(), key=lambda row: (row["batch"], row["attempt"]))
        for row in rows:
            self._note(row["source"], Plan(row["batch"], row["attempt"], row["kind"], row["plan"]))

    def of(self, source: str) -> list[Plan]:
        """The last attempt at each batch, in order."""
        by_batch = {plan.batch: plan for plan in self._all.get(source, ())}
        return list(by_batch.values())

    def last(self, source: str) -> Plan | None:
        """The newest."""
        return self._last.get(source)

    def add(self, source: str, plan: Plan) -> None:
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
        self._lake.append_rows(layout.BATCHES, [row], moment)
        reach("plan.after")
        self._note(source, plan)

    def _note(self, source: str, plan: Plan) -> None:
        self._last[source] = plan
        self._all.setdefault(source, []).append(plan)
