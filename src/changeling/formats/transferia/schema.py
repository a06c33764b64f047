"""The schema that a record carries, both ways: a list of columns, or its number in a registry."""

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from changeling.formats.options import ReadOptions
from changeling.formats.transferia import types
from changeling.model import json_text
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image
from changeling.model.table import Column, TableName, TableSchema, schema_from_json

_OLDER = ("path", "name", "type", "key", "required", "original_type")
_FORMS = {"named": (), "blank": (), "short": _OLDER, "seed": ("name", "type", "key", "original_type")}
"""Which members the columns of a list have: all that today's items have, with the table's name or without it, those of older
items, or the four that matter."""
_number = msgspec.json.Decoder(int).decode
_PART = r'(?:"(?:[^"]|"")+"|[^".]+)'
_NAME = re.compile(rf"(?:{_PART}\.)?{_PART}")


class WireColumn(msgspec.Struct, gc=False):
    """One column of a list; the members that matter here."""

    name: str
    type: str = "any"
    key: bool = False
    required: bool = False
    original_type: str = ""

    def column(self) -> Column:
        """The column with its canonical type."""
        kind, original = types.parse(self.type, self.original_type), self.original_type or self.type
        return Column(self.name, str(kind), original, not self.required)


_columns = msgspec.json.Decoder(list[WireColumn]).decode


def table_name(text: str) -> TableName:
    """The table that a text names: `schema.table`, or only the name; a text with neither one part nor two is a name as it is."""
    return TableName.parse(text) if _NAME.fullmatch(text) else TableName(None, None, text)


def table_text(table: TableName) -> str:
    """The text of a table's schema and name; a part that contains a point is quoted."""
    return TableName(None, table.schema, table.name).spelled()


class Table(NamedTuple):
    """What is known of a table before its rows are read."""

    name: TableName
    schema: str | None
    columns: tuple[str, ...]
    """Every column of a row, or none where they are unknown."""
    key: tuple[str, ...]
    kept: bytes | None
    """What `meta` must keep so that the schema can be restored: the form of the list, or the text itself."""


def table(raw: bytes | None, name: TableName, options: ReadOptions) -> Table:
    """The table of a record with this schema text; raises `Rejected` where a registry number is unknown."""
    declared, key = options.schema_of(name), options.key_of(name)
    if raw in (None, b"null", b"[]"):
        columns = () if declared is None else _names(declared)
        return Table(name, None if declared is None else declared.to_json(), columns, key, raw)
    number = _registry_number(raw)
    found = _listed(raw, key) if number is None else _registered(number, name, options)
    # A schema with an id is one version of the table among others: it applies only where its id is named.
    if declared is not None and declared.id is None:
        typed = tuple(_declared_type(column, declared) for column in found.columns)
        found = msgspec.structs.replace(found, columns=typed)
    known = tuple(column for column in found.columns if column.original_type != types.UNKNOWN)
    text = msgspec.structs.replace(found, columns=known).to_json() if known else None
    kept = json_text.compact(raw)
    if number is None and text is not None and len(known) == len(found.columns):
        kept = next((quote(form) for form in _FORMS if _list(text, found.key, True, form, name) == kept), kept)
    return Table(name, text, _names(found), found.key or key, kept)


def _registry_number(raw: bytes) -> int | None:
    if raw[:1] == b"[":
        return None
    if raw[:1] == b"{":
        raw = json_text.members(raw).get("SchemaID", b"null")
    try:
        return _number(raw)
    except msgspec.ValidationError:
        raise Rejected('a table schema is a list of columns, or {"SchemaID": number}') from None


def _registered(number: int, name: TableName, options: ReadOptions) -> TableSchema:
    found = options.schema_with_id(number)
    if found is None:
        raise Rejected(
            f'no schema has the id {number}: give it with --schema FILE, an object with "id": {number} and its columns '
            f"(in a pipeline: under `tables:` with `id: {number}`)"
        )
    if found.table is not None and not found.table.fits(name):
        raise Rejected(f"the schema with the id {number} is that of {found.table}, not of {name}")
    return found


def _listed(raw: bytes, key: tuple[str, ...]) -> TableSchema:
    found = _wire_columns(raw)
    own = tuple(column.name for column in found if column.key)
    return TableSchema(tuple(column.column() for column in found), own or key)


def _wire_columns(raw: bytes) -> list[WireColumn]:
    try:
        return _columns(raw)
    except msgspec.ValidationError:
        return [_lowered(entry) for entry in json_text.items(raw)]


def _lowered(entry: bytes) -> WireColumn:
    """A column whose members are spelt in capitals, as the members of the record are."""
    members = json_text.members(entry).items()
    lowered = ((re.sub("(?=[A-Z])", "_", name).lower().lstrip("_"), value) for name, value in members)
    return msgspec.json.decode(json_text.join(lowered), type=WireColumn)


def _declared_type(column: Column, declared: TableSchema) -> Column:
    """The column with the type that the user declares."""
    own = declared.column(column.name)
    if own is None:
        return column
    original = None if column.original_type == types.UNKNOWN else column.original_type
    return msgspec.structs.replace(column, type=own.type, original_type=original)


@functools.lru_cache(maxsize=1024)
def _list(schema: str, key: tuple[str, ...], native: bool, form: str, table: TableName | None) -> bytes:
    """The columns of a schema as a list, in one of its forms."""
    space, name = (table.schema or "", table.name) if table is not None and form == "named" else ("", "")
    entries = []
    for column in schema_from_json(schema).columns:
        wire, original = types.names(column, native)
        members = {
            "table_schema": space,
            "table_name": name,
            "path": "",
            "name": column.name,
            "type": wire,
            "key": column.name in key,
            "fake_key": False,
            "required": not column.nullable,
            "expression": "",
            "original_type": original,
        }
        entries.append(quote({name: members[name] for name in _FORMS[form] or members}))
    return json_text.join_array(entries)


def written(
    text: str, key: tuple[str, ...], native: bool, form: str, table: TableName | None, by_number: bool
) -> bytes:
    """The schema as a record carries it: its columns, or `by_number` the number that a registry gave it."""
    found = schema_from_json(text)
    if by_number and found.id is not None and set(found.key) == set(key):
        return quote({"SchemaID": found.id})
    return _list(text, key, native, form, table)


def written_back(kept: bytes, schema: str | None, table: TableName | None, by_number: bool) -> bytes:
    """The schema that a record of Transferia carried, from what `meta` kept of it."""
    if kept[:1] != b'"':
        return kept
    if schema is None:
        raise Rejected("the record carried a schema, and the change has lost it")
    return written(schema, schema_from_json(schema).key, True, json_text.string(kept), table, by_number)


@functools.lru_cache(maxsize=1024)
def column_names(kept: bytes, schema: str | None) -> tuple[str, ...]:
    """The columns of the schema that a record carried, in its order, also those of unknown type."""
    if kept[:1] == b"[":
        return tuple(column.name for column in _wire_columns(kept))
    return () if schema is None else _names(schema_from_json(schema))


def _names(schema: TableSchema) -> tuple[str, ...]:
    return tuple(column.name for column in schema.columns)


@functools.lru_cache(maxsize=1024)
def described(schema: str | None, names: tuple[str, ...], key: tuple[str, ...]) -> str:
    """A schema that has all these columns, also those that are not described."""
    known = TableSchema((), key) if schema is None else schema_from_json(schema)
    missing = tuple(Column(name, "json", types.UNKNOWN) for name in names if known.column(name) is None)
    if schema is not None and not missing:
        return schema
    return msgspec.structs.replace(known, columns=known.columns + missing, id=None).to_json()


def before_image(names: Sequence[str], columns: Sequence[str], key: Sequence[str]) -> Image:
    """How much of the row these old values are."""
    if not names:
        return Image.NONE
    if set(names) == set(key):
        return Image.KEY
    return Image.FULL if columns and set(names) >= set(columns) else Image.PARTIAL


def after_image(kind: str, names: Sequence[str], columns: Sequence[str]) -> Image:
    """How much of the row these new values are: an insert has all, an update leaves out what did not change."""
    whole = kind == "insert" or (kind == "update" and columns and set(names) >= set(columns))
    return Image.FULL if whole else Image.PARTIAL
