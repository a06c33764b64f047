"""`changeling convert`: files of one dialect into a file of another."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import msgspec

from changeling.cli.arguments import settings
from changeling.cli.input_arguments import add_input, explanation, format_of, input_of, rejects_path
from changeling.conversion import Conversion
from changeling.files import output, paths, writing
from changeling.formats import registry
from changeling.formats.format import Format, write_options
from changeling.losses import most_first
from changeling.model.printable import printable
from changeling.reading_changes import ConversionReport, Input, Progress, changes_of, silent
from changeling.rejects import RejectSink

_SMALL = 16 * 1024 * 1024
"""Bytes that are read in about a second."""


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("convert", description=__doc__)
    add_input(parser)
    parser.add_argument("--to", dest="target", required=True, metavar="G", help="the format that is written")
    parser.add_argument(
        "-O", "--output", required=True, metavar="PATH", help="a file, s3://bucket/…, or - for the output"
    )
    parser.add_argument(
        "--out-option",
        dest="out_options",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option of the format that is written",
    )
    parser.add_argument(
        "--drop",
        default="",
        metavar="WHAT",
        help="what may be lost: the names that a refusal lists, separated by commas, or all",
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.set_defaults(run=run, rejects="rejects.jsonl")


def run(parsed: argparse.Namespace) -> int:
    """Writes all of the output or nothing, and prints a report; exits with 3 if records were rejected."""
    form = registry.get(parsed.target)
    read = format_of(parsed)
    own = _options_of_the_target_alone(parsed.options, read, form)
    given = input_of(parsed, read, [pair for pair in parsed.options if pair not in own])
    chosen = {
        **settings(own, "-o"),
        **settings(parsed.out_options, "--out-option"),
        "drop": parsed.drop,
        "keyed": parsed.carrier == "kcat",
    }
    options = write_options(form, chosen)
    report = ConversionReport()
    with (
        RejectSink(rejects_path(parsed, given, parsed.output)) as rejects,
        _progress(given, parsed) as progress,
        output.Output(parsed.output) as target,
    ):
        conversion = Conversion(form, options, rejects, report, one_header=parsed.carrier == "plain")
        changes = changes_of(given, rejects, report, progress)
        writing.write(conversion.records_of(changes, given.form), target, carrier=parsed.carrier)
    print(_as_json(report) if parsed.json else _summary(report, parsed, read, form), file=sys.stderr)
    if report.rejected and not parsed.json:
        print("\n".join(f"  {line}" for line in explanation(given, report, rejects)), file=sys.stderr)
    return 3 if report.rejected else 0


def _progress(given: Input, parsed: argparse.Namespace) -> AbstractContextManager[Progress]:
    """The records may be printed on the terminal that a bar would be on."""
    return nullcontext(silent) if parsed.output == paths.STDIN else _progress_bar(paths.total_bytes(given.places))


@contextmanager
def _progress_bar(total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on terminals where useful, silence elsewhere.

    Yields a function to call with the number of bytes read since the last call; nothing is shown for little input.

    Where the size is not known, the bar appears when it is no longer little.
    """
    if not sys.stderr.isatty() or (total is not None and total < _SMALL):
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    task = progress.add_task("", total=total)

    def advance(amount: int) -> None:
        progress.update(task, advance=amount)
        if progress.tasks[0].completed >= _SMALL:
            progress.start()

    try:
        yield advance
    finally:
        progress.stop()


def _options_of_the_target_alone(given: Sequence[str], read: Format, written: Format) -> list[str]:
    """The options of `-o` that only the written format has: they can mean nothing else."""
    reading = {field.name for field in msgspec.structs.fields(read.read_options)}
    writing = {field.name for field in msgspec.structs.fields(written.write_options)}
    return [pair for pair in given if pair.partition("=")[0] in writing - reading]


def _as_json(report: ConversionReport) -> str:
    return json.dumps(
        {
            "records": report.records,
            "accepted": report.accepted,
            "rejected": report.rejected,
            "changes": report.changes,
            "written": report.written,
            "dropped": dict(report.dropped),
            "relabelled": dict(report.relabelled),
            "as_text": report.as_text,
        }
    )


def _summary(report: ConversionReport, parsed: argparse.Namespace, read: Format, written: Format) -> str:
    lines = [
        f"read      {report.records:>10,} records of {read.name}",
        f"accepted  {report.accepted:>10,}",
        f"rejected  {report.rejected:>10,}" + (f", kept in {printable(parsed.rejects)}" if report.rejected else ""),
        f"changes   {report.changes:>10,}",
        f"written   {report.written:>10,} records of {written.name} to {printable(parsed.output)}",
    ]
    lines += [f"dropped   {count:>10,} {feature}" for feature, count in most_first(report.dropped)]
    lines += [
        f"relabelled{count:>10,} {label}s, which {written.name} writes as another operation"
        for label, count in most_first(report.relabelled)
    ]
    if report.as_text:
        lines.append(
            f"as text   {report.as_text:>10,} changes with numbers or others of unknown type (--columns gives types)"
        )
    return "\n".join(lines)
