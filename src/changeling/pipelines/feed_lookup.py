"""The feeds of a pipeline, by name. Needs no Spark."""

from changeling.feeds.definitions import Definitions
from changeling.feeds.feed import Feed
from changeling.model.errors import UsageError, nearest
from changeling.pipelines.lakehouse import tables_of
from changeling.pipelines.loading import Loaded


def feeds_of(loaded: Loaded) -> list[Feed]:
    """The feeds that exist; those that were dropped do not."""
    found = Definitions(tables_of(loaded), loaded.definition.name).all()
    return [feed for feed in found if feed.status != "dropped"]


def feed_named(loaded: Loaded, name: str) -> Feed:
    """The feed of that name; raises `UsageError` with the closest name where there is none."""
    known = {feed.name: feed for feed in feeds_of(loaded)}
    if name not in known:
        raise UsageError(f"there is no feed {name!r}; {nearest(name, known)}")
    return known[name]
