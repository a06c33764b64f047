"""`changeling history`: the changes of one row, in order; needs no Spark."""

import argparse
import sys
from typing import TYPE_CHECKING

from changeling.cli.arguments import add_pipeline, add_source, pipeline_of

if TYPE_CHECKING:
    from changeling.replicas.row_history import RowChange


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser("history", description=__doc__)
    parser.add_argument("table", metavar="TABLE", help="[catalog.][schema.]name")
    parser.add_argument("--key", required=True, help="""the row's key: '{"id": 1}'""")
    add_source(parser)
    add_pipeline(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="lines of JSON, as decode prints them, with `changed`, and `resnapshot` where the table was snapshotted again",
    )
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Prints each change with the columns that it changed."""
    from changeling.model.json_text import quote
    from changeling.model.line import lines

    moments = pipeline_of(parsed.pipeline).history(parsed.table, parsed.key, source=parsed.source)
    for moment in moments:
        if parsed.json:
            (line,) = lines(moment.row)
            again = b',"resnapshot":true' if moment.is_resnapshot else b""
            sys.stdout.buffer.write(b'%b,"changed":%b%b}\n' % (line[:-1], quote(moment.changed), again))
        else:
            _show(moment)
    sys.stdout.flush()
    return 0


def _show(moment: "RowChange") -> None:
    from rich.console import Console

    from changeling.cli.display import column_line, heading
    from changeling.model import arrow_layouts

    console = Console(highlight=False, soft_wrap=True)
    console.print(heading(arrow_layouts.changes(moment.row)[0], "resnapshot" if moment.is_resnapshot else None))
    before, after = moment.before or {}, moment.after or {}
    # Without colours, what a row no longer has would look as if it had it now.
    gone = None if moment.after is None else b"NULL"
    for name in moment.changed:
        console.print(column_line(name, before.get(name), after.get(name, gone)))
