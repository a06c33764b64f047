"""Whether the rows that a feed has published can be continued in the shape that their table has now."""

from changeling.feeds.feed import Feed
from changeling.model.errors import ChangelingError
from changeling.replicas.replica_reader import ReplicaState
from changeling.replicas.shape import Columns, Shape


def check_key(feed: Feed, before: Shape, now: Shape) -> None:
    """Raises `ChangelingError` where the key is another one: readers could not find the rows again that were published."""
    if before.key != now.key:
        was, became = (", ".join(column.source_name for column in shape.key_columns) for shape in (before, now))
        raise ChangelingError(
            f"feed {feed.name!r}: the key of {feed.table} was ({was}) and is ({became}) now, and the records of a feed "
            "have one key: drop it and create it again"
        )


def is_rebuilt(columns: Columns, published: ReplicaState, now: ReplicaState, held: str) -> bool:
    """Whether rows may differ that no change touches: a schema that came late shows that a column is another one.

    `held` is the position up to which changes are published.
    """
    return not columns.fits(published.shape, published.version, now.shape, held)
