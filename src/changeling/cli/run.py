"""`changeling run`: brings new records into the log, and the log into replicas, targets and feeds; once, or until it is stopped."""

import argparse
import logging
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from changeling.cli.arguments import add_pipeline_file, pipeline_of
from changeling.cli.process import stopped_by_signals
from changeling.model.errors import ChangelingError
from changeling.model.printable import counted

if TYPE_CHECKING:
    from changeling.pipelines.run_log import RunLog
    from changeling.pipelines.run_metrics import RunMetrics

_STOPPING = "stopping when this batch is in the log; once more stops at once"


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("run", description=__doc__)
    add_pipeline_file(parser)
    parser.add_argument("--once", action="store_true", help="stop when all present input has been read")
    parser.add_argument("--take-over", action="store_true", help="continue after a run on another machine that is gone")
    parser.add_argument(
        "--resnapshot",
        action="store_true",
        help="snapshot all tables of PostgreSQL sources again, as after a lost slot",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        help="how events are written to standard error (default: for people on a terminal, text elsewhere)",
    )
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("-v", "--verbose", action="store_true", help="also log what is about to be done")
    amount.add_argument("-q", "--quiet", action="store_true", help="log only warnings and errors")
    parser.add_argument(
        "--json", action="store_true", help="events on standard output, a line of JSON each, and the summary"
    )
    parser.add_argument(
        "--metrics",
        metavar="[HOST:]PORT",
        help="serve Prometheus metrics, /healthz and /readyz on this port (default host: 127.0.0.1)",
    )
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Shows progress while it runs and a summary at the end; exits with 3 if records or changes of feeds were rejected, or tables left out."""
    from changeling.cli.run_progress import FeedRejects, LogFormat, Shown, summary, summary_lines
    from changeling.pipelines.listener import Listeners
    from changeling.pipelines.run_log import RunLog

    refused = FeedRejects()
    pipeline = pipeline_of(parsed.file or parsed.pipeline)
    level = logging.DEBUG if parsed.verbose else logging.WARNING if parsed.quiet else logging.INFO
    lines: LogFormat | None = "json" if parsed.json else parsed.log_format
    with ExitStack() as opened:
        shown = opened.enter_context(Shown(pipeline.name, lines, level=level, on_stdout=parsed.json))
        log = RunLog(pipeline.name)
        metrics = None if parsed.metrics is None else _served(pipeline.name, parsed.metrics, log, opened)
        stop = stopped_by_signals(lambda: log.log(logging.WARNING, "stopping", _STOPPING))
        try:
            totals = pipeline.run(
                once=parsed.once,
                listener=Listeners(shown, refused),
                stop=stop,
                take_over=parsed.take_over,
                resnapshot=parsed.resnapshot,
                metrics=metrics,
            )
        except ChangelingError as error:
            if lines is None:
                raise
            log.log(logging.ERROR, "failed", str(error))
            return error.exit_code
    if parsed.json:
        print("\n".join(summary_lines(pipeline.name, totals, refused.counts)))
    else:
        summary(totals)
        if rejected := sum(total.rejected for total in totals):
            print(f"{counted(rejected, 'record')} rejected: `changeling rejects` shows why", file=sys.stderr)
        for feed, count in refused.counts.items():
            print(f"feed {feed}: {counted(count, 'change')} rejected: `changeling rejects` shows why", file=sys.stderr)
    return 3 if refused.counts or any(total.rejected or total.left_out for total in totals) else 0


def _served(pipeline: str, place: str, log: "RunLog", opened: ExitStack) -> "RunMetrics":
    from prometheus_client import disable_created_metrics

    from changeling.pipelines.metrics_server import served
    from changeling.pipelines.run_metrics import RunMetrics

    # When a counter began would be one more series for each of them.
    disable_created_metrics()
    metrics = RunMetrics(pipeline)
    address = opened.enter_context(served(metrics, place))
    log.log(logging.INFO, "metrics", f"metrics at {address}/metrics", address=address)
    return metrics
