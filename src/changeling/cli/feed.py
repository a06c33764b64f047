"""`changeling feed`: changefeeds, which publish the changes of a table in any dialect; needs no Spark."""

import argparse
from typing import TYPE_CHECKING, Any, TypeAlias

from changeling.cli import feed_read
from changeling.cli.arguments import OF_THE_FORMAT, add_pipeline, add_source, pipeline_of, settings

if TYPE_CHECKING:
    from changeling.feeds.feed import Feed

_NAMED = "the name of the feed"
Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add(verbs: Actions) -> None:
    """Declares the verb with its actions."""
    parser = verbs.add_parser("feed", description=__doc__)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    for declare in (_add_create, _add_alter, _add_drop, _add_list, _add_show, feed_read.add):
        declare(actions)


def _add_create(actions: Actions) -> None:
    parser = _action(actions, "create", "add a feed to a table")
    parser.add_argument("name", metavar="NAME", help="its name: a letter, then letters, digits and underscores")
    parser.add_argument("--table", required=True, help="[catalog.][schema.]name")
    add_source(parser)
    _add_with(parser, "option of WITH: FORMAT=JSON, MODE=UPDATES, …")
    parser.add_argument("-o", dest="options", action="append", default=[], metavar="NAME=VALUE", help=OF_THE_FORMAT)
    _add_output(parser, _create)


def _create(parsed: argparse.Namespace) -> int:
    given = settings(parsed.settings, "--with")
    feeds = pipeline_of(parsed.pipeline).feeds()
    feed = feeds.create(parsed.name, parsed.table, given, source=parsed.source, options=settings(parsed.options, "-o"))
    return _tell(feed, "added", parsed.json)


def _add_alter(actions: Actions) -> None:
    parser = _action(actions, "alter", "set options of a feed, or disable it")
    parser.add_argument("name", metavar="NAME", help=_NAMED)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--disable", action="store_true", help="disable it for good; its published records stay")
    _add_with(what, "RETENTION_PERIOD=P7D, BARRIERS_INTERVAL=PT10S or AWS_REGION=…")
    _add_output(parser, _alter)


def _alter(parsed: argparse.Namespace) -> int:
    feeds = pipeline_of(parsed.pipeline).feeds()
    if parsed.disable:
        return _tell(feeds.disable(parsed.name), "disabled", parsed.json)
    return _tell(feeds.alter(parsed.name, settings(parsed.settings, "--with")), "altered", parsed.json)


def _add_drop(actions: Actions) -> None:
    parser = _action(actions, "drop", "drop a feed; a run removes what it published")
    parser.add_argument("name", metavar="NAME", help=_NAMED)
    _add_output(parser, _drop)


def _drop(parsed: argparse.Namespace) -> int:
    return _tell(pipeline_of(parsed.pipeline).feeds().drop(parsed.name), "dropped", parsed.json)


def _add_list(actions: Actions) -> None:
    _add_output(_action(actions, "list", "list all feeds"), _list, "one JSON object per feed")


def _list(parsed: argparse.Namespace) -> int:
    feeds = list(pipeline_of(parsed.pipeline).feeds())
    if parsed.json:
        for feed in feeds:
            _print_json(feed)
    elif feeds:
        from changeling.cli.display import show_table, table

        shown = table("feed", "table", "source", "format", "mode", "topic", "status", numbers=("partitions",))
        for feed in feeds:
            cells = (feed.name, str(feed.table), feed.source or "", feed.format, feed.mode, feed.topic, feed.status)
            shown.add_row(*cells, str(feed.partitions))
        show_table(shown)
    else:
        print("there are no feeds")
    return 0


def _add_show(actions: Actions) -> None:
    parser = _action(actions, "show", "show one feed with all its options")
    parser.add_argument("name", metavar="NAME", help=_NAMED)
    _add_output(parser, _show)


def _show(parsed: argparse.Namespace) -> int:
    feed = pipeline_of(parsed.pipeline).feeds().get(parsed.name)
    if parsed.json:
        _print_json(feed)
        return 0
    from changeling.cli.display import show_table, table

    shown = table("option", "value")
    for name, value in _members(feed).items():
        shown.add_row(name, value)
    show_table(shown, folded=True)
    return 0


def _members(feed: "Feed") -> dict[str, str]:
    """What a feed is, for people: as WITH has it, then the rest."""
    from changeling.formats.time_spans import iso_text
    from changeling.model.times import NANOS_PER_SECOND

    def span(seconds: int | None, none: str) -> str:
        return none if seconds is None else iso_text(seconds * NANOS_PER_SECOND)

    def flag(value: bool) -> str:
        return "TRUE" if value else "FALSE"

    found = {
        "feed": feed.name,
        "table": str(feed.table) if feed.source is None else f"{feed.table} of source {feed.source}",
        "status": feed.status,
        "FORMAT": feed.format,
        "MODE": feed.mode,
        "VIRTUAL_TIMESTAMPS": flag(feed.virtual_timestamps),
        "BARRIERS_INTERVAL": span(feed.barriers_interval, "none"),
        "SCHEMA_CHANGES": flag(feed.schema_changes),
        "USER_SIDS": flag(feed.user_sids),
        "INITIAL_SCAN": flag(feed.initial_scan),
        "RETENTION_PERIOD": span(feed.retention, "forever"),
        "TOPIC_MIN_ACTIVE_PARTITIONS": str(feed.partitions),
        "AWS_REGION": feed.aws_region or "none",
    }
    found |= {f"option {name}": str(value) for name, value in feed.options.items()}
    start = "when the table appears" if feed.start is None else f"behind point {feed.start}"
    where = "the pipeline file" if feed.in_file else "a statement"
    return found | {"topic": feed.topic, "starts": start, "declared in": where, "created": feed.created_at}


def _add_with(parser: Any, help: str) -> None:
    parser.add_argument("--with", dest="settings", action="append", default=[], metavar="NAME=VALUE", help=help)


def _action(actions: Actions, name: str, help: str) -> argparse.ArgumentParser:
    return actions.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}. Needs no Spark.")


def _add_output(parser: argparse.ArgumentParser, run: Any, as_json: str = "the whole feed as a JSON object") -> None:
    add_pipeline(parser)
    parser.add_argument("--json", action="store_true", help=as_json)
    parser.set_defaults(run=run)


def _tell(feed: "Feed", what: str, as_json: bool) -> int:
    if as_json:
        _print_json(feed)
    else:
        waits = ": it waits for the table" if what == "added" and feed.status == "pending" else ""
        print(f"feed {feed.name} {what}{waits}")
    return 0


def _print_json(feed: "Feed") -> None:
    import msgspec

    print(msgspec.json.encode(feed).decode())
