"""The changefeeds of a pipeline, to look at and to change: what `changeling feed` and `changeling sql` do. Needs no Spark."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from changeling.feeds.execution import Done, execute
from changeling.feeds.feed import Feed, Setting
from changeling.feeds.known_tables import KnownTables
from changeling.feeds.option_values import Value
from changeling.feeds.options import altered, new_feed
from changeling.model.errors import ChangelingError, UsageError, nearest
from changeling.model.table import TableName
from changeling.pipelines.feed_sync import definitions_of, known_tables
from changeling.pipelines.loading import LoadedPipeline

Result = TypeVar("Result")


class Feeds:
    """All feeds of a pipeline. A running pipeline takes up what is changed at its next step."""

    def __init__(self, loaded: LoadedPipeline) -> None:
        self._loaded, self._definitions = loaded, definitions_of(loaded)

    def __iter__(self) -> Iterator[Feed]:
        """The feeds that are not dropped, by name."""
        return iter(self._redacted(self._definitions.all))

    def get(self, name: str) -> Feed:
        """A feed by its name; raises `UsageError` with the closest one where there is none."""
        return self._redacted(lambda: self._definitions.get(name))

    def create(
        self,
        name: str,
        table: str,
        settings: Mapping[str, Value],
        *,
        source: str | None = None,
        options: Mapping[str, Setting] | None = None,
    ) -> Feed:
        """Adds a feed with a table topic. `settings` are those of WITH, `options` those of its format."""
        feed = new_feed(name, TableName.parse(table), settings, source=source, options=options)
        return self._redacted(lambda: self._definitions.create(self._known(source).placed(feed)))

    def alter(self, name: str, settings: Mapping[str, Value]) -> Feed:
        """Sets options of a feed: RETENTION_PERIOD, BARRIERS_INTERVAL and AWS_REGION can be set."""
        self._check_not_declared(name, "set its options there")
        return self._redacted(lambda: self._definitions.alter(name, lambda feed: altered(feed, settings)))

    def disable(self, name: str) -> Feed:
        """Stops a feed for good; what it published stays."""
        return self._redacted(lambda: self._definitions.change(lambda draft: draft.disable(name)))

    def drop(self, name: str) -> Feed:
        """Drops a feed; the next step of a run removes what it published."""
        self._check_not_declared(name, "take it out there, then drop it")
        return self._redacted(lambda: self._definitions.drop(name))

    def sql(self, text: str, *, source: str | None = None) -> list[Done]:
        """Runs statements such as `ALTER TABLE t ADD CHANGEFEED f WITH (…)`, all or none; `source` is that of their tables."""
        declared = {feed.name for feed in self._loaded.definition.feeds}
        return self._redacted(
            lambda: execute(
                text,
                self._definitions,
                self._known(source),
                source=source,
                declared=declared,
            )
        )

    def _known(self, source: str | None) -> KnownTables:
        """The tables that feeds can be added to; raises `UsageError` where there is no such source."""
        known = known_tables(self._loaded, self._definitions)
        names = [one.name for one in self._loaded.definition.sources]
        if source is not None and source not in names and source not in known.sources():
            raise UsageError(f"there is no source {source!r}; {nearest(source, names)}")
        return known

    def _check_not_declared(self, name: str, advice: str) -> None:
        if any(feed.name == name for feed in self._loaded.definition.feeds):
            raise UsageError(f"feed {name} is declared in the pipeline file: {advice}")

    def _redacted(self, act: Callable[[], Result]) -> Result:
        """Removes secrets from errors."""
        try:
            return act()
        except ChangelingError as error:
            raise (UsageError if isinstance(error, UsageError) else ChangelingError)(
                self._loaded.redacted(str(error))
            ) from None
