"""Options: for each format, one frozen, validated object for reading and one for writing."""

from typing import Annotated, Any, TypeVar

import msgspec

from changeling.formats.capabilities import FEATURES
from changeling.model import types
from changeling.model.errors import UsageError, nearest
from changeling.model.json_text import LARGEST_LIMIT, SIZE_LIMIT
from changeling.model.table import Column, TableName, TableSchema, parse_columns

Options = TypeVar("Options", bound="ReadOptions | WriteOptions")


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of every format for the records it reads."""

    source: str | None = None
    """The stream's name; the format's where none is given."""
    table: TableName | None = None
    """The table of records that do not name one."""
    key: tuple[str, ...] = ()
    """The key columns, where neither the records nor a schema name them."""
    schemas: tuple[TableSchema, ...] = ()
    """Known schemas; one without a table applies to every table."""
    registry: tuple[TableSchema, ...] = ()
    """Schemas of a registry: they apply only to records that name them by number."""
    record_bytes: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_LIMIT)] = SIZE_LIMIT
    """The size of the largest record that is read, after decompression; a larger one is rejected."""

    @property
    def knows_columns(self) -> bool:
        """Whether the columns of any table are known."""
        return any(schema.columns for schema in self.schemas)

    def table_of_topic(self, topic: str | None) -> TableName | None:
        """The table of a record that names none: the user's, or that of the topic."""
        return self.table if self.table is not None or topic is None else TableName(None, None, topic)

    def schema_of(self, table: TableName | None) -> TableSchema | None:
        """The known schema of a table: names are compared as far as both have the parts."""
        return next((schema for schema in self._fitting(table) if schema.columns), None)

    def columns_of(self, table: TableName | None) -> tuple[str, ...]:
        """The names of the known columns of a table, in their order; none where they are not known."""
        found = self.schema_of(table)
        return () if found is None else tuple(column.name for column in found.columns)

    def schema_text(self, table: TableName | None) -> str | None:
        """The known schema of a table as text."""
        found = self.schema_of(table)
        return None if found is None else found.to_json()

    def keyed_schema_text(self, table: TableName) -> str | None:
        """As `schema_text`, with the key columns that are known, where the schema has others or none."""
        found = self.schema_of(table)
        return None if found is None else msgspec.structs.replace(found, key=self.key_of(table)).to_json()

    def schema_with_id(self, number: int) -> TableSchema | None:
        """The known schema of that registry number."""
        return next((schema for schema in (*self.schemas, *self.registry) if schema.id == number), None)

    def key_of(self, table: TableName | None) -> tuple[str, ...]:
        """The key columns of a table, or none. A schema without columns gives only a key."""
        return self.key or next((schema.key for schema in self._fitting(table) if schema.key), ())

    def _fitting(self, table: TableName | None) -> list[TableSchema]:
        return [
            schema
            for schema in self.schemas
            if schema.table is None or (table is not None and schema.table.fits(table))
        ]


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of every format for the records it writes."""

    drop: frozenset[str] = frozenset()
    """Features that may be lost."""
    keyed: bool = True
    """Whether message keys are kept with the values; in plain files they are not."""

    @property
    def names_topic(self) -> bool:
        """These options say what topics are called: records of this dialect do not keep their original topic."""
        return False

    @property
    def names_table(self) -> bool:
        """These options make records name their table, though the format by itself does not."""
        return False


def build(kind: type[Options], given: dict[str, Any], what: str) -> Options:
    """The checked options of a format; raises `UsageError` that names the closest known option, or what a value must be."""
    known = {field.name for field in msgspec.structs.fields(kind)}
    for name in given:
        if name not in known:
            raise UsageError(f"{what} has no option {name!r}; {nearest(name, known)}")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{what}: {error}") from None


def shared(
    *,
    table: str | TableName | None = None,
    key: str | list[str] | tuple[str, ...] | None = None,
    source: str | None = None,
    columns: str | dict[str, str] | None = None,
    schemas: tuple[TableSchema, ...] = (),
) -> dict[str, Any]:
    """The options that every format accepts, from the texts that a user writes."""
    given: dict[str, Any] = {}
    if source is not None:
        given["source"] = source
    if table is not None:
        given["table"] = TableName.parse(table) if isinstance(table, str) else table
    names = tuple(part.strip() for part in key.split(",")) if isinstance(key, str) else tuple(key or ())
    if len(set(names)) < len(names) or not all(names):
        raise UsageError(f"the key {', '.join(names)} names a column twice, or not at all")
    if names:
        given["key"] = names
    if columns:
        given["schemas"] = (_declared(columns, names), *schemas)
    elif schemas:
        given["schemas"] = schemas
    return given


def _declared(columns: str | dict[str, str], key: tuple[str, ...]) -> TableSchema:
    if isinstance(columns, str):
        return TableSchema(parse_columns(columns), key)
    return TableSchema(tuple(Column(name, str(types.declared(kind))) for name, kind in columns.items()), key)


def parse_drop(text: str) -> frozenset[str]:
    """`--drop a,b` or `--drop all`; raises `UsageError` with the closest known name."""
    names = frozenset(part.strip() for part in text.split(",") if part.strip())
    if names == {"all"}:
        return frozenset(FEATURES)
    for name in names:
        if name not in FEATURES:
            raise UsageError(f"--drop: there is nothing called {name!r}; {nearest(name, ['all', *FEATURES])}")
    return names
