"""Runs statements on changefeeds: all of a text in one commit, or none."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import msgspec

from changeling.feeds.definitions import Definitions
from changeling.feeds.draft import Draft
from changeling.feeds.feed import Feed
from changeling.feeds.known_tables import KnownTables
from changeling.feeds.option_values import Value, is_option
from changeling.feeds.options import OptionError, altered, new_feed
from changeling.feeds.statements import (
    Action,
    AddFeed,
    AlterTable,
    DisableFeed,
    DropFeed,
    Name,
    SetOptions,
    Setting,
    Statement,
    Table,
    parse,
)
from changeling.feeds.tokens import marked
from changeling.model.errors import UsageError
from changeling.replicas.table_lookup import WantedTable


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one action."""

    action: str
    """`add`, `set`, `disable`, `drop`, or `drop table`."""
    feed: str | None = None
    """None where it is about a table."""
    table: str
    source: str | None
    status: str


def execute(
    text: str,
    definitions: Definitions,
    known: KnownTables,
    *,
    source: str | None = None,
    declared: Collection[str] = (),
) -> list[Done]:
    """Runs the statements of a text, all or none; raises `UsageError` with a mark under the word that is wrong.

    `source` is that of the tables, where several sources have one of that name. `declared` are the names of the feeds in the
    pipeline file: their options are changed there.
    """
    statements = parse(text)

    def decide(draft: Draft) -> list[Done]:
        execution = _Execution(text, draft, known, source, declared)
        return [done for statement in statements for done in execution.run(statement)]

    return definitions.change(decide)


class _Execution:
    """The statements of one text on one draft; what is refused is marked in the text."""

    def __init__(
        self, text: str, draft: Draft, known: KnownTables, source: str | None, declared: Collection[str]
    ) -> None:
        self._text, self._draft, self._known = text, draft, known
        self._source, self._declared = source, declared

    def run(self, statement: Statement) -> list[Done]:
        if isinstance(statement, AlterTable):
            return [self._apply(statement.table, action) for action in statement.actions]
        return self._drop_table(statement.table)

    def _apply(self, table: Table, action: Action) -> Done:
        if isinstance(action, AddFeed):
            return self._add(table, action)
        with self._marking(action.feed):
            self._check_owner(table, action.feed.text)
        if isinstance(action, SetOptions):
            return self._set(action)
        if isinstance(action, DisableFeed):
            return _done("disable", self._draft.disable(action.feed.text))
        return self._drop(action)

    def _add(self, table: Table, action: AddFeed) -> Done:
        with self._marking(action.feed, action.settings):
            feed = new_feed(action.feed.text, table.name, _given(action.settings), source=self._source)
        with self._marking(table):
            placed = self._known.placed(feed)
            self._draft.check_table(placed)
        with self._marking(action.feed):
            return _done("add", self._draft.create(placed))

    def _set(self, action: SetOptions) -> Done:
        with self._marking(action.feed, action.settings):
            self._check_not_declared(action.feed.text, "set its options there")
            return _done(
                "set", self._draft.alter(action.feed.text, lambda feed: altered(feed, _given(action.settings)))
            )

    def _drop(self, action: DropFeed) -> Done:
        with self._marking(action.feed):
            self._check_not_declared(action.feed.text, "take it out there, then drop it")
            return _done("drop", self._draft.drop(action.feed.text))

    def _drop_table(self, table: Table) -> list[Done]:
        with self._marking(table):
            source, name = self._known.find(WantedTable(table.name, self._source))
            for feed in self._draft.feeds():
                if self._draft.is_of(feed, source, name):
                    self._check_not_declared(feed.name, "take it out there, then drop the table")
        feeds = self._draft.drop_table(source, name)
        dropped = Done(action="drop table", table=str(name), source=source, status="dropped")
        return [*(_done("drop", feed) for feed in feeds), dropped]

    def _check_owner(self, table: Table, name: str) -> None:
        """A statement names the table of the feed that it changes."""
        feed = self._draft.get(name)
        if feed.table == table.name:
            return
        place = ("" if feed.source is None else feed.source, feed.table)
        if feed.source is None or WantedTable(table.name, self._source).among([place]) is None:
            raise UsageError(f"feed {name} is of table {feed.table}, not of {table.name}")

    def _check_not_declared(self, name: str, advice: str) -> None:
        if name in self._declared:
            raise UsageError(f"feed {name} is declared in the pipeline file: {advice}")

    @contextmanager
    def _marking(self, word: Name | Table, settings: tuple[Setting, ...] = ()) -> Iterator[None]:
        """A mistake in an option is marked there, any other one at a word of the text."""
        try:
            yield
        except UsageError as error:
            start, end = word.start, word.end
            if isinstance(error, OptionError) and (found := _setting(settings, error.option)) is not None:
                start, end = found.value_start, found.value_end
                if error.is_about_name:
                    start, end = found.name.start, found.name.end
            raise marked(self._text, start, end, str(error)) from None


def _given(settings: tuple[Setting, ...]) -> dict[str, Value]:
    return {one.name.text: one.value for one in settings}


def _setting(settings: tuple[Setting, ...], option: str | None) -> Setting | None:
    return None if option is None else next((one for one in settings if is_option(one.name.text, option)), None)


def _done(action: str, feed: Feed) -> Done:
    return Done(action=action, feed=feed.name, table=str(feed.table), source=feed.source, status=feed.status)
