"""The schema that a record carries, both ways: a list of columns, or its number in a registry."""

import functools
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeVar

import msgspec

from changeling.formats.options import ReadOptions
from changeling.formats.transferia import type_names
from changeling.formats.transferia.envelope import WireColumn
from changeling.model import json_text
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image
from changeling.model.table import Column, TableName, TableSchema, schema_from_json

Form = Literal["named", "blank", "short", "seed"]
"""Which members the columns of a list have: those of today's items with the table's name or without it, those of older
items, or the four that matter."""

Key = TypeVar("Key")
Value = TypeVar("Value")
_REMEMBERED = 4096
_FORMS: dict[bytes, Form] = {b'"named"': "named", b'"blank"': "blank", b'"short"': "short", b'"seed"': "seed"}
_columns = msgspec.json.Decoder(list[WireColumn]).decode
_FORM = 'a table schema is a list of columns, or {"SchemaID": number}'
_number = msgspec.json.Decoder(int).decode


class TablePlan(NamedTuple):
    """What is known of a table before its rows are read."""

    table: TableName | None
    schema: str | None
    columns: tuple[str, ...]
    """Every column of a row, or none where they are unknown."""
    key: tuple[str, ...]
    kept: bytes | None
    """What `meta` must keep so that the schema can be restored: the form of the list, or the text itself."""


def remember(known: dict[Key, Value], key: Key, value: Value) -> Value:
    """Keeps a value for the next record; forgets all of them if records differ so much that nothing is gained."""
    if len(known) >= _REMEMBERED:
        known.clear()
    known[key] = value
    return value


def table_plan(raw: bytes | None, table: TableName | None, options: ReadOptions) -> TablePlan:
    """The plan of a record with this schema text; raises `Rejected` where a registry number is unknown."""
    declared = options.schema_of(table)
    if raw is None or raw in (b"null", b"[]"):
        columns = () if declared is None else tuple(column.name for column in declared.columns)
        return TablePlan(table, None if declared is None else declared.to_json(), columns, options.key_of(table), raw)
    number = _registry_number(raw)
    kept = json_text.compact(raw)
    found = _listed(raw, options.key_of(table)) if number is None else options.schema_with_id(number)
    if found is None:
        raise Rejected(
            f'no schema has the id {number}: give it with --schema FILE, an object with "id": {number} and its columns '
            f"(in a pipeline: under `tables:` with `id: {number}`)"
        )
    if number is not None and found.table is not None and table is not None and not found.table.fits(table):
        raise Rejected(f"the schema with the id {number} is that of {found.table}, not of {table}")
    schema, known = _overridden(found, declared)
    text = known.to_json() if known.columns else None
    if number is None and known is schema and text is not None:
        fitting = (name for name, form in _FORMS.items() if columns_text(text, schema.key, True, form, table) == kept)
        kept = next(fitting, kept)
    names = tuple(column.name for column in schema.columns)
    return TablePlan(table, text, names, schema.key or options.key_of(table), kept)


def _registry_number(raw: bytes) -> int | None:
    if raw[:1] == b"[":
        return None
    if raw[:1] == b"{":
        members = json_text.members(raw)
        if "SchemaID" not in members:
            raise Rejected(_FORM)
        raw = members["SchemaID"]
    try:
        return _number(raw)
    except msgspec.ValidationError:
        raise Rejected(_FORM) from None


def _listed(raw: bytes, key: tuple[str, ...]) -> TableSchema:
    found = _wire_columns(raw)
    own = tuple(column.name for column in found if column.key)
    return TableSchema(
        tuple(
            Column(
                column.name,
                str(type_names.parse(column.type, column.original_type)),
                column.original_type or column.type,
                not column.required,
            )
            for column in found
        ),
        own or key,
    )


def _wire_columns(raw: bytes) -> list[WireColumn]:
    try:
        return _columns(raw)
    except msgspec.ValidationError:
        return [_lowered(entry) for entry in json_text.items(raw)]


def _lowered(entry: bytes) -> WireColumn:
    """A column whose members are spelt in capitals, as the members of the record are."""
    members = {_snake(name): value for name, value in json_text.members(entry).items()}
    return msgspec.json.decode(json_text.join(members.items()), type=WireColumn)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _overridden(found: TableSchema, declared: TableSchema | None) -> tuple[TableSchema, TableSchema]:
    """The schema with the user's types in it, and the same without the columns whose type is still unknown."""
    # A schema with an id is one version of the table among others: it applies only where its id is named.
    if declared is not None and declared.id is None:
        found = msgspec.structs.replace(
            found, columns=tuple(_declared_type(column, declared) for column in found.columns)
        )
    known = tuple(column for column in found.columns if column.original_type != type_names.UNKNOWN)
    return found, found if len(known) == len(found.columns) else msgspec.structs.replace(found, columns=known)


def _declared_type(column: Column, declared: TableSchema) -> Column:
    own = declared.column(column.name)
    if own is None:
        return column
    original = None if column.original_type == type_names.UNKNOWN else column.original_type
    return msgspec.structs.replace(column, type=own.type, original_type=original)


@functools.lru_cache(maxsize=1024)
def columns_text(schema: str, key: tuple[str, ...], native: bool, form: Form, table: TableName | None) -> bytes:
    """The list of columns of a schema, in one of its forms."""
    space, name = (table.schema or "", table.name) if table is not None and form == "named" else ("", "")
    entries = []
    for column in schema_from_json(schema).columns:
        wire, original = type_names.names(column, native)
        members: list[tuple[str, object]] = [
            ("table_schema", space),
            ("table_name", name),
            ("path", ""),
            ("name", column.name),
            ("type", wire),
            ("key", column.name in key),
            ("fake_key", False),
            ("required", not column.nullable),
            ("expression", ""),
            ("original_type", original),
        ]
        entries.append(quote({name: value for name, value in members if name in _MEMBERS[form]}))
    return json_text.join_array(entries)


_MEMBERS: dict[Form, frozenset[str]] = {
    "short": frozenset({"path", "name", "type", "key", "required", "original_type"}),
    "seed": frozenset({"name", "type", "key", "original_type"}),
}
_MEMBERS["named"] = _MEMBERS["blank"] = _MEMBERS["short"] | {"table_schema", "table_name", "fake_key", "expression"}


def written(
    schema: str, key: tuple[str, ...], native: bool, form: Form, table: TableName | None, by_number: bool
) -> bytes:
    """The schema as a record carries it: its columns, or `by_number` the number that a registry gave it."""
    found = schema_from_json(schema)
    if by_number and found.id is not None and set(found.key) == set(key):
        return quote({"SchemaID": found.id})
    return columns_text(schema, key, native, form, table)


def written_back(kept: bytes, schema: str | None, table: TableName | None, by_number: bool) -> bytes:
    """The schema that a record of Transferia carried, from what `meta` kept of it."""
    if kept[:1] != b'"':
        return kept
    if schema is None:
        raise Rejected("the record carried a schema, and the change has lost it")
    return written(schema, schema_from_json(schema).key, True, _FORMS[kept], table, by_number)


@functools.lru_cache(maxsize=1024)
def column_names(kept: bytes, schema: str | None) -> tuple[str, ...]:
    """The columns of the schema that a record carried, in its order, also those of unknown type."""
    if kept[:1] == b"[":
        return tuple(column.name for column in _wire_columns(kept))
    return () if schema is None else tuple(column.name for column in schema_from_json(schema).columns)


@functools.lru_cache(maxsize=1024)
def described(schema: str | None, names: tuple[str, ...], key: tuple[str, ...]) -> str:
    """A schema that has all these columns, also those that are not described."""
    known = TableSchema((), key) if schema is None else schema_from_json(schema)
    missing = tuple(Column(name, "json", type_names.UNKNOWN) for name in names if known.column(name) is None)
    if schema is not None and not missing:
        return schema
    return msgspec.structs.replace(known, columns=known.columns + missing, id=None).to_json()


def before_image(names: Sequence[str], columns: Sequence[str], key: Sequence[str]) -> Image:
    """How much of the row these old values are."""
    held = set(names)
    if not held:
        return Image.NONE
    if key and held == set(key):
        return Image.KEY
    return Image.FULL if columns and held >= set(columns) else Image.PARTIAL


def after_image(kind: str, names: Sequence[str], columns: Sequence[str]) -> Image:
    """How much of the row these new values are: an insert has all, an update leaves out what did not change."""
    whole = kind == "insert" or (kind == "update" and columns and set(names) >= set(columns))
    return Image.FULL if whole else Image.PARTIAL
