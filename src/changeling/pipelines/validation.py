"""Validates that the parts of a pipeline agree with each other, and that formats and types exist."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path as Folder
from typing import Any

from changeling.feeds.option_values import is_option
from changeling.feeds.options import FormatOptionError, OptionError
from changeling.formats import registry
from changeling.formats.format import Format
from changeling.formats.options import ReadOptions
from changeling.formats.user_options import read_options
from changeling.model import types
from changeling.model.errors import UsageError, nearest
from changeling.model.table import TableName
from changeling.pipelines import declared_schemas
from changeling.pipelines.declared_feeds import check_template, declared_feed
from changeling.pipelines.definition import (
    Definition,
    Feed,
    KafkaTopic,
    PostgresSource,
    PostgresTarget,
    RecordSource,
    Source,
    TableRule,
    setting_texts,
)
from changeling.pipelines.yaml_text import Path, PipelineFileError

_SOURCE_SETTINGS = {
    "table": "table",
    "key": "key",
    "columns": "columns",
    "schemas": "schema_file",
    "registry": "schema_file",
    "source": "name",
    "record_bytes": "record_bytes",
}
"""Options of every format, and the setting of the source that provides each."""


def check(definition: Definition, folder: Folder) -> None:
    """Raises `PipelineFileError` with the location of the first problem."""
    _check_names(definition.sources, "sources")
    for place, source in enumerate(definition.sources):
        if not isinstance(source, PostgresSource):
            _check_source(source, ("sources", place), folder)
    _check_rules(definition)
    for place, feed in enumerate(definition.feeds):
        _check_feed(definition, feed, ("feeds", place))
    _check_names(definition.feeds, "feeds")
    _check_names(definition.targets, "targets")
    for place, source in enumerate(definition.sources):
        if not isinstance(source, PostgresSource):
            _check_together(definition, source, ("sources", place), folder)


def _parsed(parse: Callable[[Any], Any], value: Any, path: Path) -> Any:
    """The parsed value; a `UsageError` becomes an error of the file."""
    try:
        return parse(value)
    except UsageError as error:
        raise PipelineFileError(str(error), path) from None
    except RecursionError:
        raise PipelineFileError("nested too deeply", path) from None


def _check_names(parts: Sequence[Source] | Sequence[Feed] | Sequence[PostgresTarget], member: str) -> None:
    taken: dict[str, str] = {}
    for place, part in enumerate(parts):
        other = taken.get(part.name.lower())
        if other == part.name:
            raise PipelineFileError(
                f"two {member} are called {other!r}: give each a name of its own", (member, place, "name")
            )
        if other is not None:
            problem = f"{part.name!r} differs from {other!r} in case only: give each a name of its own"
            raise PipelineFileError(problem, (member, place, "name"))
        taken[part.name.lower()] = part.name


def _check_source(source: RecordSource, path: Path, folder: Folder) -> None:
    form = _parsed(registry.get, source.format, (*path, "format"))
    _check_options(form, setting_texts(source.options), (*path, "options"))
    if source.table is not None:
        _parsed(TableName.parse, source.table, (*path, "table"))
    _check_columns(source.columns, (*path, "columns"))
    _check_key(source.key, source.columns, (*path, "key"))
    _parsed(lambda given: declared_schemas.file_schemas(given, folder), source, (*path, "schema_file"))


def _check_options(form: Format, options: Mapping[str, str], path: Path) -> None:
    for name in options:
        if name in _SOURCE_SETTINGS:
            raise PipelineFileError(
                f"not an option of a format: write it as {_SOURCE_SETTINGS[name]}, next to options", (*path, name)
            )
    try:
        read_options(form, options)
    except UsageError as error:
        for name, value in options.items():
            try:
                read_options(form, {name: value})
            except UsageError as alone:
                raise PipelineFileError(re.sub(r" - at `\$[^`]*`$", "", str(alone)), (*path, name)) from None
        raise PipelineFileError(str(error), path) from None


def _check_columns(columns: Mapping[str, str], path: Path) -> None:
    for name, kind in columns.items():
        if not name:
            raise PipelineFileError("a column must have a name", (*path, name))
        _parsed(types.declared, kind, (*path, name))


def _check_key(key: Sequence[str], columns: Mapping[str, str], path: Path) -> None:
    for place, name in enumerate(key):
        if name in key[:place]:
            raise PipelineFileError(f"the column {name!r} is listed twice", (*path, place))
        if columns and name not in columns:
            raise PipelineFileError(
                f"the key column {name!r} is not among the columns; {nearest(name, columns)}", (*path, place)
            )


def _check_rules(definition: Definition) -> None:
    seen: dict[tuple[TableName, str | None], int] = {}
    numbers: dict[int, list[str | None]] = {}
    for place, rule in enumerate(definition.tables):
        path = ("tables", place)
        table = _parsed(TableName.parse, rule.name, (*path, "name"))
        _check_source_name(definition, rule.source, path)
        if (table, rule.source) in seen:
            whose = "all sources" if rule.source is None else f"source {rule.source!r}"
            first = seen[table, rule.source]
            raise PipelineFileError(
                f"tables[{first}] is a rule for the same table and {whose}: merge them", (*path, "name")
            )
        seen[table, rule.source] = place
        if declared_schemas.is_pattern(rule) and (rule.columns or rule.key or rule.id is not None):
            raise PipelineFileError(
                "a pattern sets the mode and the schema policy of tables, not their columns", (*path, "name")
            )
        if rule.typed and rule.mode != "append":
            raise PipelineFileError("a typed table of every change belongs to `mode: append`", (*path, "typed"))
        _check_columns(rule.columns, (*path, "columns"))
        _check_key(rule.key, rule.columns, (*path, "key"))
        _check_captured(definition, rule, path)
        if rule.id is not None:
            _check_number(rule, numbers, (*path, "id"))


def _check_source_name(definition: Definition, source: str | None, path: Path) -> None:
    names = [one.name for one in definition.sources]
    if source is not None and source not in names:
        raise PipelineFileError(f"there is no source {source!r}; {nearest(source, names)}", (*path, "source"))


def _check_captured(definition: Definition, rule: TableRule, path: Path) -> None:
    """Filters of rows and columns are possible only for postgres sources."""
    asked = [name for name in ("include", "exclude", "mask", "hash", "where") if getattr(rule, name)]
    if not asked:
        return
    others = [
        source.name
        for source in definition.sources
        if rule.source in (None, source.name) and not isinstance(source, PostgresSource)
    ]
    if others:
        problem = f"this is possible for postgres sources only: set `source:`, and not to {others[0]!r}"
        raise PipelineFileError(problem, (*path, asked[0]))


def _check_number(rule: TableRule, numbers: dict[int, list[str | None]], path: Path) -> None:
    assert rule.id is not None
    if not rule.columns:
        raise PipelineFileError("an id identifies columns: write them under columns", path)
    others = numbers.setdefault(rule.id, [])
    if rule.source in others or (others and None in (rule.source, *others)):
        raise PipelineFileError(f"another table also has the id {rule.id}", path)
    others.append(rule.source)


def _check_feed(definition: Definition, feed: Feed, path: Path) -> None:
    _parsed(TableName.parse, feed.table, (*path, "table"))
    _check_source_name(definition, feed.source, path)
    if isinstance(feed.topic, KafkaTopic):
        _parsed(check_template, feed.topic.name, (*path, "topic", "name"))
    try:
        declared_feed(feed)
    except OptionError as error:
        given = next(
            (name for name in feed.settings if error.option is not None and is_option(name, error.option)), None
        )
        raise PipelineFileError(str(error), (*path, "with") if given is None else (*path, "with", given)) from None
    except FormatOptionError as error:
        raise PipelineFileError(str(error), (*path, "options")) from None


def _check_together(definition: Definition, source: RecordSource, path: Path, folder: Folder) -> None:
    known = ReadOptions(schemas=tuple(declared_schemas.known_schemas(source, folder)))
    for place, rule in enumerate(definition.tables):
        schema = known.schema_of(TableName.parse(rule.name)) if rule.source in (None, source.name) else None
        if schema is not None and not rule.columns:
            columns = {column.name: column.type for column in schema.columns}
            _check_key(rule.key, columns, ("tables", place, "key"))
    form = registry.get(source.format)
    _parsed(
        form.decoder, _parsed(lambda given: declared_schemas.options_of(definition, given, folder), source, path), path
    )
