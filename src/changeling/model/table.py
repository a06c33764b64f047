"""Tables: their names, their columns, and the schema text that travels with a change."""

import functools
from typing import Any

import msgspec

from changeling.model import types
from changeling.model.errors import UsageError
from changeling.model.printable import printable


class TableName(msgspec.Struct, frozen=True):
    """Where rows live; catalog and schema are null where the source has none."""

    catalog: str | None
    schema: str | None
    name: str

    def __str__(self) -> str:
        """For people, always in one line; `spelled` is exact."""
        return ".".join(printable(part) for part in (self.catalog, self.schema, self.name) if part is not None)

    def spelled(self) -> str:
        """The name as `parse` reads it."""
        return ".".join(
            '"' + part.replace('"', '""') + '"' if set(part) & set('."') else part
            for part in (self.catalog, self.schema, self.name)
            if part is not None
        )

    def fits(self, other: "TableName") -> bool:
        """Whether both may name the same table: the parts that both have are equal."""
        return self.name == other.name and all(
            a is None or b is None or a == b for a, b in ((self.schema, other.schema), (self.catalog, other.catalog))
        )

    @staticmethod
    def parse(text: str) -> "TableName":
        """`[catalog.][schema.]name`; parts may be quoted with `"` if they contain a point."""
        parts = _split(text)
        if not 1 <= len(parts) <= 3 or not all(parts):
            raise UsageError(f"{text!r} is not a table name: write [catalog.][schema.]name")
        return TableName(*([None] * (3 - len(parts))), *parts)  # type: ignore[arg-type]


def _split(text: str) -> list[str]:
    parts, quoted, closed = [""], False, False
    for letter in text:
        # A quote inside quotes is written twice.
        twice, closed = letter == '"' and closed and not quoted, letter == '"' and quoted
        if letter == '"':
            parts[-1] += letter if twice else ""
            quoted = not quoted
        elif letter == "." and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """One column: its canonical type, and the wire's own name of the type where a record contains it."""

    name: str
    type: str
    original_type: str | None = None
    nullable: bool = True

    @property
    def canonical(self) -> types.Type:
        """The parsed type."""
        return types.parse(self.type)


class TableSchema(msgspec.Struct, frozen=True, omit_defaults=True):
    """The columns and the key of a table. `table` is null where the schema applies to any table.

    `id` is its number in a registry (a record may carry nothing else).
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    table: TableName | None = None
    id: int | None = None

    def to_json(self) -> str:
        """The text that travels in the `schema` column of changes."""
        return msgspec.json.encode(self).decode()

    def column(self, name: str) -> Column | None:
        """The column of that name, or None."""
        return self._by_name().get(name)

    def _by_name(self) -> dict[str, Column]:
        return _columns_by_name(self)


@functools.lru_cache(maxsize=1024)
def _columns_by_name(schema: TableSchema) -> dict[str, Column]:
    return {column.name: column for column in schema.columns}


@functools.lru_cache(maxsize=4096)
def schema_from_json(text: str) -> TableSchema:
    """The schema of a text that `TableSchema.to_json` wrote; cached, since a batch repeats few of them."""
    return msgspec.json.decode(text, type=TableSchema)


def parse_columns(text: str) -> tuple[Column, ...]:
    """`id:int64,price:decimal(10,2)` as columns; raises `UsageError` naming the wrong part."""
    columns = []
    for part in _outside_brackets(text):
        name, colon, kind = part.rpartition(":")
        if not colon or not name.strip():
            raise UsageError(f"{part!r} is not a column: write name:type, as in id:int64,price:decimal(10,2)")
        columns.append(Column(name.strip(), str(types.declared(kind))))
    _check_names([column.name for column in columns], (), text)
    return tuple(columns)


def _check_names(columns: list[str], key: tuple[str, ...], where: str) -> None:
    for names, what in ((columns, "column"), (list(key), "key column")):
        if twice := [name for name in names if names.count(name) > 1]:
            raise UsageError(f"{where}: the {what} {twice[0]!r} is listed twice")
    if missing := [name for name in key if name not in columns]:
        raise UsageError(f"{where}: the key column {missing[0]!r} is not among the columns")


def _outside_brackets(text: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "(<") - (letter in ")>")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part.strip()]


def parse_schemas(text: bytes, where: str) -> tuple[TableSchema, ...]:
    """A schema file: one object, an array or lines of `{"table": "a.b", "columns": {"c": "int64"}, "key": [...]}`."""
    try:
        found: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        try:
            found = [msgspec.json.decode(line) for line in text.splitlines() if line.strip()]
        except msgspec.DecodeError as error:
            raise UsageError(f"{where}: not JSON ({error})") from None
    entries = found if isinstance(found, list) else [found]
    if not entries:
        raise UsageError(f"{where}: there is no schema in it")
    return tuple(_schema(entry, where) for entry in entries)


def _schema(entry: Any, where: str) -> TableSchema:
    if not isinstance(entry, dict) or not isinstance(entry.get("columns"), (dict, list)):
        raise UsageError(f'{where}: a schema is an object such as {{"table": "users", "columns": {{"id": "int64"}}}}')
    table, columns = entry.get("table"), entry["columns"]
    if isinstance(columns, dict):
        columns = [
            {"name": name, **kind} if isinstance(kind, dict) else {"name": name, "type": kind}
            for name, kind in columns.items()
        ]
    try:
        written = [msgspec.convert(column, Column) for column in columns]
        parsed = tuple(msgspec.structs.replace(column, type=str(types.declared(column.type))) for column in written)
        if table is not None:
            table = TableName.parse(table) if isinstance(table, str) else msgspec.convert(table, TableName)
        schema = TableSchema(parsed, tuple(entry.get("key", ())), table, entry.get("id"))
    except (msgspec.ValidationError, TypeError) as error:
        raise UsageError(f"{where}: {error}") from None
    _check_names([column.name for column in parsed], schema.key, where)
    return schema
