"""The arguments of verbs that read files: which files, and the options of their records; and why records of them were rejected."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from changeling.cli.arguments import OF_THE_FORMAT, settings, whole_number
from changeling.files import paths
from changeling.files.reading import first_records
from changeling.formats import registry
from changeling.formats.format import Format, read_options
from changeling.formats.framing import CsvRows
from changeling.formats.recognition import fitting
from changeling.model.errors import UsageError
from changeling.model.json_text import LARGEST_LIMIT
from changeling.model.printable import printable
from changeling.model.table import parse_schemas
from changeling.reading_changes import ConversionReport, Input
from changeling.rejects import RejectSink


def add_input(parser: argparse.ArgumentParser) -> None:
    """FILE... [--from F], and all options of the records."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="a file, folder, glob, s3://bucket/…, or - for the input"
    )
    parser.add_argument(
        "--from", dest="format", metavar="F", help="the format that is read (default: what the first records look like)"
    )
    parser.add_argument("--table", help="[catalog.][schema.]name, where the records do not name it")
    parser.add_argument("--key", help="key columns a,b, where the records do not name them")
    parser.add_argument("--source", help="name of the stream (default: the format's name)")
    parser.add_argument(
        "--columns",
        help="columns and types: id:int64,price:decimal(10,2); int, bigint, text and the like are understood",
    )
    parser.add_argument("--schema", metavar="FILE", help="table schemas as JSON")
    parser.add_argument("-o", dest="options", action="append", default=[], metavar="NAME=VALUE", help=OF_THE_FORMAT)
    parser.add_argument(
        "--carrier",
        choices=("plain", "kcat"),
        default="plain",
        help="records alone (plain, the default), or messages as kcat -J prints them, read and written",
    )
    parser.add_argument(
        "--record-bytes",
        type=record_bytes,
        metavar="N",
        help="reject records over N bytes (default: 64 MB after decompression)",
    )
    parser.add_argument(
        "--on-error",
        choices=("reject", "fail"),
        default="reject",
        help="set a bad record aside and continue (reject, the default), or stop (fail)",
    )
    parser.add_argument("--rejects", metavar="FILE", help="write bad records to this file")
    parser.add_argument("--limit", type=whole_number, metavar="N", help="stop after N changes")


def format_of(parsed: argparse.Namespace) -> Format:
    """The format of `--from`, else the one that the first records show, which is said."""
    if parsed.format is not None:
        return registry.get(parsed.format)
    name = _recognised(parsed)
    print(f"changeling: read as {name}", file=sys.stderr)
    return registry.get(name)


def _recognised(parsed: argparse.Namespace) -> str:
    given = settings(parsed.options, "-o")
    style = CsvRows(given.get("delimiter", ","), given.get("quote", '"'), given.get("escape"), header=False)
    records = first_records(paths.expand(parsed.files), parsed.carrier, style)
    found = fitting((record.value for record in records), style)
    if len(found) == 1:
        return found[0]
    what = f"fit {' and '.join(found)} alike" if found else "look like no format" if records else "are missing"
    names = " or ".join(f"--from {name}" for name in found) or "--from F (changeling formats lists them)"
    raise UsageError(f"the first records of {printable(' '.join(parsed.files))} {what}: say what they are with {names}")


def input_of(parsed: argparse.Namespace, form: Format, options: Sequence[str]) -> Input:
    """The input that the arguments describe, with these `-o`; raises `UsageError` for invalid ones."""
    given: dict[str, Any] = settings(options, "-o")
    for name in ("table", "key", "source", "columns", "record_bytes"):
        if getattr(parsed, name) is not None:
            given[name] = getattr(parsed, name)
    if parsed.schema is not None:
        try:
            given["schemas"] = parse_schemas(Path(parsed.schema).read_bytes(), parsed.schema)
        except OSError as error:
            raise UsageError(f"--schema {printable(parsed.schema)}: {error.strerror}") from None
    return Input(
        places=paths.expand(parsed.files),
        form=form,
        options=read_options(form, given),
        carrier=parsed.carrier,
        fail_on_reject=parsed.on_error == "fail",
        limit=parsed.limit,
    )


def rejects_path(parsed: argparse.Namespace, given: Input, output: str | None = None) -> str | None:
    """The file of the rejects; raises `UsageError` if it is no local file, or one that the command reads or writes."""
    path: str | None = parsed.rejects
    if path is None:
        return None
    if path == "-" or "://" in path:
        raise UsageError(f"--rejects {printable(path)}: rejects are kept in a local file; give its path")
    others = [place.path for place in given.places] + ([output] if output is not None else [])
    if os.path.realpath(path) in {os.path.realpath(other) for other in others if other != "-"}:
        raise UsageError(
            f"--rejects {printable(path)}: that file is read or written by this command; give another path"
        )
    return path


def record_bytes(text: str) -> int:
    """The limit of `--record-bytes`."""
    number = whole_number(text)
    if not 1 <= number <= LARGEST_LIMIT:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {LARGEST_LIMIT:,} bytes")
    return number


def explanation(given: Input, report: ConversionReport, rejects: RejectSink) -> list[str]:
    """A line a reason; where no record was accepted, and the last ones look like another dialect, one that names it."""
    lines = [printable(line) for line in rejects.explanation()]
    found = [] if report.accepted else fitting(rejects.recent_values())
    if found and given.form.name not in found:
        lines.append(
            f"these are not records of {given.form.name}: they look like {' or '.join(found)} (--from {found[0]})"
        )
    return lines
