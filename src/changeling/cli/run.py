"""`changeling run`: reads new records into the log, to the end of the input or continuously."""

import argparse

from changeling.cli.arguments import pipeline_of
from changeling.cli.interrupts import stopped_by_signals


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("run", help="run a pipeline: its sources into its log", description=__doc__)
    parser.add_argument("file", nargs="?", metavar="PIPELINE", help="the pipeline (default: the one *.yaml here)")
    parser.add_argument("--pipeline", metavar="FILE", help="the same, as other verbs take it")
    parser.add_argument("--once", action="store_true", help="stop when all present input has been read")
    parser.add_argument("--take-over", action="store_true", help="continue after a run on another machine that is gone")
    parser.add_argument(
        "--resnapshot",
        action="store_true",
        help="snapshot all tables of PostgreSQL sources again, as after a lost slot",
    )
    parser.add_argument("--json", action="store_true", help="the summary as lines of JSON")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Shows progress while it runs and a summary at the end; exits with 3 if records were rejected or tables left out."""
    from changeling.cli.run_progress import Shown, summary, summary_lines

    pipeline = pipeline_of(parsed.file or parsed.pipeline)
    stop = stopped_by_signals("changeling: stopping when this batch is in the log; once more stops at once")
    with Shown(pipeline.name) as shown:
        totals = pipeline.run(
            once=parsed.once,
            listener=shown,
            stop=stop,
            take_over=parsed.take_over,
            resnapshot=parsed.resnapshot,
        )
    if parsed.json:
        print("\n".join(summary_lines(totals)))
    else:
        summary(totals)
    return 3 if any(total.rejected or total.left_out for total in totals) else 0
