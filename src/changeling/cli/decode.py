"""`changeling decode`: records of any dialect as changes, a line each."""

import argparse
import sys

from changeling.cli.input_arguments import add_input, explanation, format_of, input_of, rejects_path
from changeling.model.line import lines
from changeling.model.printable import printable
from changeling.reading_changes import ConversionReport, changes_of
from changeling.rejects import RejectSink


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("decode", description=__doc__)
    add_input(parser)
    parser.add_argument("--typed", action="store_true", help="canonical values, where the schema is known")
    parser.add_argument("--json", action="store_true", help="lines of JSON (the default)")
    parser.add_argument("--pretty", action="store_true", help="for people: what changed, in colour")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Prints one line a change; exits with 3 if records were rejected."""
    if parsed.pretty:
        from changeling.cli.display import show_changes
    given = input_of(parsed, format_of(parsed), parsed.options)
    report = ConversionReport()
    with RejectSink(rejects_path(parsed, given)) as rejects:
        for batch in changes_of(given, rejects, report, show_typed=parsed.typed):
            if parsed.pretty:
                show_changes(batch)
            elif batch.num_rows:
                sys.stdout.buffer.write(b"\n".join(lines(batch)) + b"\n")
                sys.stdout.buffer.flush()
    if report.rejected:
        kept = "; --rejects FILE keeps them" if rejects.path is None else f", kept in {printable(rejects.path)}"
        said = f"changeling: {report.rejected:,} of {report.records:,} records rejected{kept}"
        print("\n  ".join([said, *explanation(given, report, rejects)]), file=sys.stderr)
        return 3
    return 0
