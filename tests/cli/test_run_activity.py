"""What a run shows below its lines on a terminal, while several of its parts are at work."""

from typing import Any, cast

from changeling.cli.run_activity import RunActivity
from changeling.log.ingest import Report
from changeling.log.task_result import Outcome
from changeling.sources.source import PlanSize


def idle() -> tuple[int, int]:
    return 0, 0


def done(source: str) -> Report:
    return Report(source, 1, cast(Any, Outcome), PlanSize(), 1.0)


def test_the_line_names_every_part_that_is_at_work() -> None:
    run = RunActivity("shop: starting")
    assert run.line(idle) == "shop: starting"
    run.prepares("opening the log")
    assert run.line(idle) == "opening the log"
    run.looks("drop")
    assert run.line(idle) == "drop: looking for what is new"
    run.starts("drop", 1, PlanSize(files=2))
    run.starts("bus", 1, PlanSize(records=1000))
    assert run.line(lambda: (3, 8)) == "drop: reading 2 files; bus: reading 1,000 records; 3 of 8 tasks done"
    run.done(done("drop"))
    run.merges()
    assert run.line(idle) == "bus: reading 1,000 records; replicas: merging what is new"
    run.starts("drop", 2, PlanSize(files=1))
    run.starts("pg", 1, PlanSize(bytes=10))
    run.starts("more", 1, PlanSize(bytes=10))
    assert run.line(idle) == ("bus: reading 1,000 records; replicas: merging what is new; drop: reading 1 file; 2 more")


def test_the_line_while_nothing_is_done() -> None:
    run = RunActivity("shop: starting")
    run.starts("drop", 1, PlanSize(files=2))
    run.done(done("drop"))
    run.merges()
    run.rests("replicas")
    run.waits(1.0)
    run.looks("drop")
    assert run.line(idle) == "all read; next look in 1 s (Ctrl-C stops)"
    run.fails("pg", "unreachable")
    run.fails("bus", "unreachable")
    run.waits(8.0)
    assert run.line(idle) == "waiting for bus, pg; next look in 8 s (Ctrl-C stops)"
    run.recovers("pg")
    run.recovers("bus")
    assert run.line(idle) == "all read; next look in 8 s (Ctrl-C stops)"
