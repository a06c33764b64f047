"""How a benchmark reports its result, and how times are measured."""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    name: str
    ours: float
    unit: str
    peer: float | None = None
    limit: float | None = None
    """The best known result of others, or an upper bound."""
    aim: float | None = None
    """The ratio to reach."""
    note: str | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.peer is None else self.ours / self.peer

    def as_json(self) -> dict[str, Any]:
        rounded = {name: round(value, 3) if isinstance(value, float) else value for name, value in asdict(self).items()}
        return {**rounded, "ratio": None if self.ratio is None else round(self.ratio, 3)}


Benchmark = Callable[[], Result]


def medians(
    runs: int, *tasks: Callable[[], object], before_each_round: Callable[[], object] = lambda: None
) -> list[float]:
    """The median time of each task in seconds; they alternate, so that a slow phase of the machine affects all of them."""
    times: list[list[float]] = [[] for _ in tasks]
    for _ in range(runs):
        before_each_round()
        for place, task in enumerate(tasks):
            start = time.perf_counter()
            task()
            times[place].append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]
