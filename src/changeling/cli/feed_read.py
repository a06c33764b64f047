"""`changeling feed read`: the records of a feed, from any place, to the end or forever. Needs no Spark."""

import argparse
import sys
from typing import TYPE_CHECKING

from changeling.cli.arguments import add_pipeline, pipeline_of, whole_number
from changeling.cli.process import stopped_by_signals
from changeling.model.errors import UsageError
from changeling.model.printable import printable_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from changeling.feeds.feed import Feed
    from changeling.feeds.reading import Gap

_SHOWN_BYTES = 3_000


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the verb below `feed`."""
    parser = verbs.add_parser("read", help="read the records of a feed", description=__doc__)
    parser.add_argument("feed", metavar="NAME", help="the name of the feed")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="PLACE",
        default="earliest",
        help="an offset of each partition, a time of publishing (RFC 3339), or earliest (the default)",
    )
    parser.add_argument("--follow", action="store_true", help="wait for more, until Ctrl-C or SIGTERM")
    parser.add_argument(
        "--consumer",
        metavar="C",
        help="continue where this consumer was, and store its place; --from is for its first read",
    )
    parser.add_argument("--limit", metavar="N", type=whole_number, help="stop after N records")
    add_pipeline(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per record")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Prints records by partition and offset; missed records are reported on stderr."""
    from changeling.feeds.reading import parse_start

    if parsed.consumer == "":
        raise UsageError("--consumer takes a name")
    pipeline = pipeline_of(parsed.pipeline)
    reader = pipeline.feed_reader(parsed.feed, parse_start(parsed.start), consumer=parsed.consumer, on_gap=_tell)
    stop = stopped_by_signals() if parsed.follow else None
    for number, part in enumerate(reader.parts(follow=parsed.follow, limit=parsed.limit, stop=stop)):
        _print_lines(reader.topic.feed, part) if parsed.json else _print_table(part, header=number == 0)
        # The place of a consumer is stored when the next part is asked for.
        sys.stdout.flush()
    return 0


def _tell(gap: "Gap") -> None:
    print(f"changeling: {printable_lines(str(gap))}", file=sys.stderr)


def _print_lines(feed: "Feed", part: "pa.Table") -> None:
    from changeling.feeds.reading import json_line, records_of

    sys.stdout.buffer.writelines(json_line(feed, record) + b"\n" for record in records_of(part))


def _print_table(part: "pa.Table", *, header: bool) -> None:
    from changeling.cli.display import show_table, table
    from changeling.feeds.reading import moment_text, records_of

    shown = table("partition", "offset", "published", "key", "value")
    shown.show_header = header
    for record in records_of(part):
        key, value = (
            "" if content is None else content[:_SHOWN_BYTES].decode(errors="replace")
            for content in (record.key, record.value)
        )
        shown.add_row(str(record.partition), str(record.offset), moment_text(record.published_at), key, value)
    show_table(shown, folded=True)
