"""Topics of changefeeds: the path of the table, then the feed's name."""

from changeling.model.table import TableName


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
