"""A table's name as one text: `schema.table`, or only the name; a part that contains a point is quoted."""

import re

from changeling.model.table import TableName

_PART = r'(?:"((?:[^"]|"")+)"|([^".]+))'
_NAME = re.compile(rf"(?:{_PART}\.)?{_PART}")


def parse(text: str) -> TableName:
    """The table that a text names; a text with neither one part nor two is a name as it is."""
    match = _NAME.fullmatch(text)
    if match is None:
        return TableName(None, None, text)
    quoted_schema, schema, quoted_name, name = match.groups()
    return TableName(
        None,
        quoted_schema.replace('""', '"') if quoted_schema else schema,
        quoted_name.replace('""', '"') if quoted_name else name,
    )


def text(table: TableName) -> str:
    """The text of a table's schema and name."""
    return ".".join(_quoted(part) for part in (table.schema, table.name) if part is not None)


def _quoted(part: str) -> str:
    return '"{}"'.format(part.replace('"', '""')) if "." in part or '"' in part else part
