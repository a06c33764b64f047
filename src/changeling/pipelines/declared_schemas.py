"""What a pipeline declares about the tables of a source, as read options of its format."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from changeling.formats import registry
from changeling.formats.format import read_options
from changeling.formats.options import ReadOptions
from changeling.model import types
from changeling.model.errors import UsageError
from changeling.model.table import Column, TableName, TableSchema, parse_schemas
from changeling.pipelines.definition import Definition, RecordSource, TableRule, setting_texts

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def resolved(text: str, folder: Path) -> str:
    """A path relative to the pipeline file as an absolute one; addresses such as s3://… stay as they are."""
    return text if _ADDRESS.match(text) else os.path.join(folder, text.removeprefix("./"))


def without_dots(path: str) -> str:
    """The same absolute path without `..`; symbolic links stay, except those that a `..` follows.

    Iceberg removes `..` together with the name before it, which gives another path if that is a symbolic link.
    """
    found = "/"
    for part in path.split(os.sep):
        if part == "..":
            found = os.path.dirname(os.path.realpath(found) if os.path.islink(found) else found)
        elif part not in ("", "."):
            found = os.path.join(found, part)
    return found


def columns_of(declared: Mapping[str, str]) -> tuple[Column, ...]:
    """Declared columns; raises `UsageError` for an unknown type."""
    return tuple(Column(name, str(types.declared(kind))) for name, kind in declared.items())


def file_schemas(source: RecordSource, folder: Path) -> tuple[TableSchema, ...]:
    """The schemas of the source's `schema_file`; raises `UsageError` where it cannot be read."""
    if source.schema_file is None:
        return ()
    try:
        content = Path(resolved(source.schema_file, folder)).read_bytes()
    except (OSError, ValueError) as error:
        raise UsageError(f"{source.schema_file}: {getattr(error, 'strerror', None) or error}") from None
    return parse_schemas(content, source.schema_file)


def known_schemas(source: RecordSource, folder: Path) -> list[TableSchema]:
    """What the source itself declares: the schemas of its file, those with the longest table name first, then its columns."""
    own = [TableSchema(columns_of(source.columns), source.key)] if source.columns else []
    return _closest_first([*file_schemas(source, folder), *own])


def rules_of(definition: Definition, source: str) -> list[TableRule]:
    """The rules for tables of a source, by precedence: the longest name first, then those of only this source."""
    rules = [rule for rule in definition.tables if rule.source in (None, source)]
    return sorted(rules, key=_nearness)


def _nearness(rule: TableRule) -> tuple[int, bool, bool]:
    """Rules with more parts of a table name come before those with fewer, and patterns last."""
    return _parts_missing(TableName.parse(rule.name)), is_pattern(rule), rule.source is None


def is_pattern(rule: TableRule) -> bool:
    """Whether a rule applies to every table whose name matches."""
    return any(sign in rule.name for sign in "*?[")


def applies(rule: TableRule, table: TableName) -> bool:
    """Whether a rule applies to a table: the parts of its name that are given match."""
    wanted = TableName.parse(rule.name)
    pairs = ((wanted.catalog, table.catalog), (wanted.schema, table.schema), (wanted.name, table.name))
    return all(part is None or own is None or fnmatchcase(own, part) for part, own in pairs)


def options_of(
    definition: Definition, source: RecordSource, folder: Path, learned: tuple[TableSchema, ...] = ()
) -> ReadOptions:
    """The checked options of the source's format, with everything that the pipeline declares about its tables.

    Rules come first, then what the source declares; `learned` schemas apply where nothing is declared. A rule without columns or
    key takes those of the next schema that matches its table. A rule's key wins over the source's.
    """
    form = registry.get(source.format)
    known = [*known_schemas(source, folder), *learned]
    rules = [_schema(rule, known) for rule in rules_of(definition, source.name) if rule.key or rule.columns]
    schemas = [_with_key(schema, source.key) for schema in (*rules, *known)]
    keys = {key for key in (source.key, *(schema.key for schema in schemas)) if key}
    key = source.key
    if key and len(keys) > 1:
        # As an option it would win over the key of every schema.
        schemas += [] if source.columns else [TableSchema((), key)]
        key = ()
    table = None if source.table is None else TableName.parse(source.table)
    given = {
        "source": source.name,
        "table": table,
        "key": key,
        "schemas": tuple(schemas),
        "record_bytes": source.record_bytes,
    }
    return read_options(form, {**setting_texts(source.options), **given})


def _schema(rule: TableRule, known: Sequence[TableSchema]) -> TableSchema:
    table = TableName.parse(rule.name)
    base = ReadOptions(schemas=tuple(known)).schema_of(table) or TableSchema(())
    schema = TableSchema(columns_of(rule.columns) or base.columns, rule.key, table, rule.id)
    return _with_key(schema, base.key)


def _with_key(schema: TableSchema, key: tuple[str, ...]) -> TableSchema:
    if schema.key or not all(schema.column(name) for name in key):
        return schema
    return msgspec.structs.replace(schema, key=key)


def _closest_first(schemas: Iterable[TableSchema]) -> list[TableSchema]:
    return sorted(schemas, key=lambda schema: _parts_missing(schema.table))


def _parts_missing(table: TableName | None) -> int:
    return 3 if table is None else (table.catalog, table.schema).count(None)
