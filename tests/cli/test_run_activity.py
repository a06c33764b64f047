"""What a run shows below its lines on a terminal, while several of its parts are at work."""

from typing import Any, cast

from changeling.cli.run_activity import RunActivity
from changeling.log.ingest import BatchReport
from changeling.log.task_result import Outcome
from changeling.sources.source import PlanSize


def idle() -> tuple[int, int]:
    return 0, 0


def done(source: str) -> BatchReport:
    return BatchReport(source, 1, cast(Any, Outcome), PlanSize(), 1.0)


def test_the_line_names_every_part_that_is_at_work() -> None:
    run = RunActivity("shop: starting")
    assert run.line(idle) == "shop: starting"
    run.on_prepare("opening the log")
    assert run.line(idle) == "opening the log"
    run.on_poll("drop")
    assert run.line(idle) == "drop: looking for what is new"
    run.on_batch_start("drop", 1, PlanSize(files=2))
    run.on_batch_start("bus", 1, PlanSize(records=1000))
    assert run.line(lambda: (3, 8)) == "drop: reading 2 files; bus: reading 1,000 records; 3 of 8 tasks done"
    run.on_batch_done(done("drop"))
    run.on_merge_start()
    assert run.line(idle) == "bus: reading 1,000 records; replicas: merging what is new"
    run.on_batch_start("drop", 2, PlanSize(files=1))
    run.on_batch_start("pg", 1, PlanSize(bytes=10))
    run.on_batch_start("more", 1, PlanSize(bytes=10))
    assert run.line(idle) == ("bus: reading 1,000 records; replicas: merging what is new; drop: reading 1 file; 2 more")


def test_the_line_while_nothing_is_done() -> None:
    run = RunActivity("shop: starting")
    run.on_batch_start("drop", 1, PlanSize(files=2))
    run.on_batch_done(done("drop"))
    run.on_merge_start()
    run.on_idle("replicas")
    run.on_wait(1.0)
    run.on_poll("drop")
    assert run.line(idle) == "all read; next look in 1 s (Ctrl-C stops)"
    run.on_failure("pg", "unreachable")
    run.on_failure("bus", "unreachable")
    run.on_wait(8.0)
    assert run.line(idle) == "waiting for bus, pg; next look in 8 s (Ctrl-C stops)"
    run.on_recovery("pg")
    run.on_recovery("bus")
    assert run.line(idle) == "all read; next look in 8 s (Ctrl-C stops)"
