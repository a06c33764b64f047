"""`changeling verify`: compares each replica with its PostgreSQL table, row for row, while writes continue.

With `--feed`, it checks the records of a feed instead: their order, barriers and images, and the table that they make.
"""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from changeling.cli.arguments import add_pipeline, pipeline_of, whole_number
from changeling.model.errors import UsageError
from changeling.model.printable import counted

if TYPE_CHECKING:
    from changeling.feeds.verification import VerifiedFeed
    from changeling.pipelines.pipeline import Pipeline
    from changeling.pipelines.verification import Verified

_SHOWN = 20


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("verify", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="[schema.]name or a pattern (default: all)")
    parser.add_argument("--feed", metavar="F", help="check the records of a feed instead")
    parser.add_argument("--repair", action="store_true", help="snapshot again the tables that differ")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=whole_number,
        default=_SHOWN,
        help=f"rows shown of each table that differs (default: {_SHOWN})",
    )
    add_pipeline(parser)
    parser.add_argument(
        "--json", action="store_true", help="one JSON object per row that differs, or per fault of a feed"
    )
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Exits with 5 if something differs and was not repaired, or if a feed has faults."""
    pipeline = pipeline_of(parsed.pipeline)
    if parsed.feed is not None:
        if parsed.tables or parsed.repair:
            raise UsageError("--feed checks the records of one feed: leave out tables and --repair")
        return _verify_feed(pipeline, parsed)
    found = []
    for one in pipeline.verify(parsed.tables, most=parsed.limit):
        found.append(one)
        _print_lines(one) if parsed.json else _show(one)
    wrong = [one for one in found if one.different]
    if wrong and parsed.repair:
        repaired = pipeline.repair(found)
        if not repaired:
            print("the current run snapshots these tables again", file=sys.stderr)
            return 0
        again = list(pipeline.verify([one.table.spelled() for one in wrong], most=0))
        wrong = [one for one in again if one.different]
        for one in again:
            print(f"{_name(one)}: {'still differs' if one.different else 'repaired'}", file=sys.stderr)
    return 5 if wrong else 0


def _verify_feed(pipeline: "Pipeline", parsed: argparse.Namespace) -> int:
    found = pipeline.verify_feed(parsed.feed)
    if parsed.json:
        for fault in found.faults:
            print(json.dumps({"feed": found.feed, **fault._asdict()}))
    else:
        _show_feed(found, parsed.limit)
    return 5 if found.faults else 0


def _show_feed(found: "VerifiedFeed", most: int) -> None:
    from rich.console import Console
    from rich.text import Text

    from changeling.model.printable import printable

    console = Console(highlight=False, soft_wrap=True)
    console.print(
        Text.assemble(
            (found.feed, "bold"), f"  {counted(found.records, 'record')}, {counted(found.barriers, 'barrier')}"
        )
    )
    for check, faults in found.checks.items():
        mark = Text("✗ ", style="red") if faults else Text("✓ ", style="green")
        console.print(Text.assemble("  ", mark, check))
        for fault in faults[:most]:
            console.print(Text.assemble("      ", (printable(str(fault)), "red")))
        if len(faults) > most:
            console.print(f"      {len(faults) - most:,} more")
    if found.compared:
        console.print(f"  compared at {counted(len(found.compared), 'point')}, the last one {found.compared[-1]}")
    for check, why in found.not_checked.items():
        console.print(Text(f"  - {check}: not checked, {why}", style="dim"))


def _name(one: "Verified") -> str:
    """The table with its source and its database: several may have a table of that name."""
    return f"{one.source}: {one.table}"


def _show(one: "Verified") -> None:
    from rich.console import Console
    from rich.text import Text

    from changeling.cli.display import column_line
    from changeling.model import json_text
    from changeling.model.printable import printable

    console = Console(highlight=False, soft_wrap=True)
    verdict, colour = (f"{one.different:,} differ", "red") if one.different else ("equal", "green")
    # Tables come one by one: what can be aligned is in front of their names.
    line = Text.assemble((f"{verdict:<12}", colour), f"{counted(one.rows, 'row'):>18}  ", (_name(one), "bold"))
    if one.quarantined:
        line.append(f"  ({counted(one.quarantined, 'value')} in quarantine: no column can store it)", style="yellow")
    console.print(line)
    for each in one.differences:
        place = "only in the source" if each.replica is None else "only in the replica" if each.source is None else ""
        row = printable((each.key or each.source or each.replica or b"").decode())
        console.print(Text.assemble("  ", row, f"  {place}"))
        if each.source is not None and each.replica is not None:
            here, there = json_text.members(each.replica.decode()), json_text.members(each.source.decode())
            for name in there:
                if here.get(name) != there[name]:
                    console.print("  ", column_line(name, here.get(name), there[name]))


def _print_lines(one: "Verified") -> None:
    from changeling.model.json_text import join, quote

    for each in one.differences:
        line = join(
            [
                ("table", quote(f"{one.table.schema}.{one.table.name}")),
                ("database", quote(one.table.catalog)),
                ("source_name", quote(one.source)),
                ("key", each.key or b"null"),
                ("source", each.source or b"null"),
                ("replica", each.replica or b"null"),
            ]
        )
        sys.stdout.buffer.write(line + b"\n")
    sys.stdout.flush()
