"""`changeling replica`: the rows of a table, now or then. Spark is started only where much has to be read."""

import argparse
import sys
from typing import TYPE_CHECKING

from changeling.cli.arguments import add_pipeline, add_source, pipeline_of, whole_number
from changeling.model.printable import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.text import Text

    from changeling.pipelines.pipeline import Pipeline
    from changeling.replicas.shape import Shape

_SHOWN = 50
_USAGE = """changeling replica [-h] [--as-of T | --as-of-transaction N | --point N]
                          [--base PLACE [--before T] | --rebuild]
                          [--source NAME] [--limit N] [--pipeline FILE]
                          [--json] TABLE"""


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb."""
    parser = verbs.add_parser(
        "replica",
        usage=_USAGE,
        description=__doc__,
    )
    parser.add_argument("table", metavar="TABLE", help="[catalog.][schema.]name")
    add_source(parser)
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--as-of", metavar="T", help="as of a time: RFC 3339 with an offset, inclusive")
    when.add_argument("--as-of-transaction", metavar="N", help="after a transaction, by its id")
    when.add_argument("--point", metavar="N", type=whole_number, help="at a point, by its number in the table `points`")
    when.add_argument(
        "--base",
        metavar="PLACE",
        help="start from a full load (Parquet, CSV, JSON lines or a table), and apply the log to it",
    )
    when.add_argument("--rebuild", action="store_true", help="rebuild the replica from the log, and swap it in")
    parser.add_argument("--before", metavar="T", help="with --base: only changes strictly before a time")
    parser.add_argument(
        "--limit", metavar="N", type=whole_number, help=f"show N rows (default: {_SHOWN}; all with --json)"
    )
    add_pipeline(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Prints rows."""
    pipeline = pipeline_of(parsed.pipeline)
    if parsed.rebuild:
        return _rebuild(pipeline, parsed.table, parsed.source)
    rows, shape = _rows(pipeline, parsed)
    ordered = rows.sort_by([(column.name, "ascending") for column in shape.key_columns]) if shape.key else rows
    if parsed.json:
        _print_lines(ordered.slice(0, parsed.limit), shape)
    else:
        _print_table(ordered, shape, _SHOWN if parsed.limit is None else parsed.limit)
    return 0


def _rows(pipeline: "Pipeline", parsed: argparse.Namespace) -> "tuple[pa.Table, Shape]":
    from changeling.pipelines.time_travel import NOW, AskedState

    asked = AskedState(parsed.as_of, parsed.as_of_transaction, parsed.point, parsed.base, parsed.before)
    if asked == NOW:
        found = pipeline.current(parsed.table, source=parsed.source)
        if found is not None:
            return found
    # Without a replica its rows are folded from the log.
    state = pipeline.read(parsed.table, asked, source=parsed.source, on_spark=_announce_spark)
    return state.rows, state.shape


def _announce_spark(reason: str) -> None:
    print(f"{reason}: this needs Spark", file=sys.stderr)


def _print_lines(rows: "pa.Table", shape: "Shape") -> None:
    from changeling.replicas.json_output import lines

    for line in lines(rows, {column.name: column.kind for column in shape.columns}):
        sys.stdout.buffer.write(line + b"\n")
    sys.stdout.flush()


def _print_table(rows: "pa.Table", shape: "Shape", limit: int) -> None:
    from changeling.cli.display import show_table, table
    from changeling.replicas.json_output import json_column

    names = [column.name for column in shape.columns]
    grid = table(*names)
    shown = rows.slice(0, limit)
    texts = [json_column(shown.column(column.name), column.kind) for column in shape.columns]
    for row in zip(*texts, strict=True):
        grid.add_row(*(_cell(value) for value in row))
    show_table(grid)
    left = rows.num_rows - shown.num_rows
    if left > 0:
        print(f"{left:,} more row{'' if left == 1 else 's'}; --limit {rows.num_rows} shows all", file=sys.stderr)


def _cell(value: bytes) -> "Text":
    """A value for people: texts without quotes, NULL in grey."""
    from rich.text import Text

    from changeling.model import json_text
    from changeling.model.printable import printable

    if value == b"null":
        return Text("NULL", style="dim")
    return Text(printable(json_text.string(value) if value[:1] == b'"' else value.decode()))


def _rebuild(pipeline: "Pipeline", table: str, source: str | None) -> int:
    found = pipeline.rebuild(table, source=source)
    print(f"{table}: {counted(found, 'row')}, rebuilt from the log", file=sys.stderr)
    return 0
