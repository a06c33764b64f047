"""Topics of changefeeds: what is written to them, and their names: the path of the table, then the feed's name."""

from changeling.formats.options import WriteOptions
from changeling.formats.ydb_json.envelope import Mode
from changeling.model.table import TableName


class ChangefeedWrite(WriteOptions, frozen=True, kw_only=True):
    """Options that writers of all forms of changefeeds have."""

    mode: str | None = None
    """The changefeed's MODE; without one each record shows what its change has."""
    feed: str | None = None
    """The changefeed's name, the last part of the topic's path; without one records keep their topic, and others get `feed`."""

    def __post_init__(self) -> None:
        Mode.named(self.mode)

    @property
    def names_topic(self) -> bool:
        """A feed was named."""
        return self.feed is not None


def table_of(topic: str | None) -> TableName | None:
    """The table of `path/to/table/feed`: the folder before it is its schema, all before that its catalog."""
    path = (topic or "").removeprefix("/").split("/")[:-1]
    if not path or not path[-1]:
        return None
    schema = path[-2] if len(path) > 1 else None
    return TableName("/".join(path[:-2]) or None, schema or None, path[-1])


def topic_of(table: TableName | None, feed: str) -> str | None:
    """The topic of a table's feed; a catalog without a schema leaves an empty folder between, so that it reads back."""
    if table is None:
        return None
    if table.catalog is not None:
        return f"{table.catalog}/{table.schema or ''}/{table.name}/{feed}"
    return "/".join(part for part in (table.schema, table.name, feed) if part is not None)
