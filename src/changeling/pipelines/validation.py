"""Validates that the parts of a pipeline agree with each other, and that formats and types exist; finds all that is wrong."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path as Folder
from typing import Any, TypeAlias

from changeling.feeds.option_values import is_option
from changeling.feeds.options import FormatOptionError, OptionError
from changeling.formats import registry
from changeling.formats.format import Format, read_options
from changeling.formats.options import ReadOptions
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

Problems: TypeAlias = Iterator[PipelineFileError]

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


def problems_of_parts(definition: Definition, folder: Folder) -> Problems:
    """What is wrong with each part, and with the names of others in it."""
    yield from _in_names(definition.sources, "sources")
    for place, source in enumerate(definition.sources):
        if not isinstance(source, PostgresSource):
            yield from _in_source(source, ("sources", place), folder)
    yield from _in_rules(definition)
    for place, feed in enumerate(definition.feeds):
        yield from _in_feed(definition, feed, ("feeds", place))
    yield from _in_names(definition.feeds, "feeds")
    yield from _in_names(definition.targets, "targets")


def problems_of_sources_with_rules(definition: Definition, folder: Folder) -> Problems:
    """What is wrong with what sources and rules say together of tables; each part by itself is right."""
    for place, source in enumerate(definition.sources):
        if not isinstance(source, PostgresSource):
            yield from _in_source_with_rules(definition, source, ("sources", place), folder)


def _unreadable(parse: Callable[[Any], object], value: Any, path: Path) -> Problems:
    """Why a value cannot be parsed."""
    try:
        parse(value)
    except UsageError as error:
        yield PipelineFileError(str(error), path)
    except RecursionError:
        yield PipelineFileError("nested too deeply", path)


def _in_names(parts: Sequence[Source] | Sequence[Feed] | Sequence[PostgresTarget], member: str) -> Problems:
    taken: dict[str, str] = {}
    for place, part in enumerate(parts):
        other = taken.setdefault(part.name.lower(), part.name)
        if other != part.name:
            problem = f"{part.name!r} differs from {other!r} in case only: give each a name of its own"
            yield PipelineFileError(problem, (member, place, "name"))
        elif part.name in (one.name for one in parts[:place]):
            problem = f"two {member} are called {other!r}: give each a name of its own"
            yield PipelineFileError(problem, (member, place, "name"))


def _in_source(source: RecordSource, path: Path, folder: Folder) -> Problems:
    try:
        form = registry.get(source.format)
    except UsageError as error:
        yield PipelineFileError(str(error), (*path, "format"))
    else:
        yield from _in_options(form, setting_texts(source.options), (*path, "options"))
    if source.table is not None:
        yield from _unreadable(TableName.parse, source.table, (*path, "table"))
    yield from _in_columns(source.columns, (*path, "columns"))
    yield from _in_key(source.key, source.columns, (*path, "key"))
    yield from _unreadable(lambda given: declared_schemas.file_schemas(given, folder), source, (*path, "schema_file"))


def _in_options(form: Format, options: Mapping[str, str], path: Path) -> Problems:
    misplaced = [name for name in options if name in _SOURCE_SETTINGS]
    for name in misplaced:
        problem = f"not an option of a format: write it as {_SOURCE_SETTINGS[name]}, next to options"
        yield PipelineFileError(problem, (*path, name))
    given = {name: value for name, value in options.items() if name not in misplaced}
    try:
        read_options(form, given)
    except UsageError as error:
        alone = [one for name in given for one in _in_option(form, name, given[name], path)]
        yield from alone or [PipelineFileError(str(error), path)]


def _in_option(form: Format, name: str, value: str, path: Path) -> Problems:
    try:
        read_options(form, {name: value})
    except UsageError as error:
        yield PipelineFileError(re.sub(r" - at `\$[^`]*`$", "", str(error)), (*path, name))


def _in_columns(columns: Mapping[str, str], path: Path) -> Problems:
    for name, kind in columns.items():
        if not name:
            yield PipelineFileError("a column must have a name", (*path, name))
        else:
            yield from _unreadable(types.declared, kind, (*path, name))


def _in_key(key: Sequence[str], columns: Mapping[str, str], path: Path) -> Problems:
    for place, name in enumerate(key):
        if name in key[:place]:
            yield PipelineFileError(f"the column {name!r} is listed twice", (*path, place))
        elif columns and name not in columns:
            problem = f"the key column {name!r} is not among the columns; {nearest(name, columns)}"
            yield PipelineFileError(problem, (*path, place))


def _in_rules(definition: Definition) -> Problems:
    seen: dict[tuple[TableName, str | None], int] = {}
    numbers: dict[int, list[str | None]] = {}
    for place, rule in enumerate(definition.tables):
        path = ("tables", place)
        yield from _in_source_name(definition, rule.source, path)
        yield from _in_columns(rule.columns, (*path, "columns"))
        yield from _in_key(rule.key, rule.columns, (*path, "key"))
        yield from _in_captured(definition, rule, path)
        if rule.typed and rule.mode != "append":
            yield PipelineFileError("a typed table of every change belongs to `mode: append`", (*path, "typed"))
        if rule.id is not None:
            yield from _in_number(rule, numbers, (*path, "id"))
        try:
            table = TableName.parse(rule.name)
        except UsageError as error:
            yield PipelineFileError(str(error), (*path, "name"))
            continue
        first = seen.setdefault((table, rule.source), place)
        if first != place:
            whose = "all sources" if rule.source is None else f"source {rule.source!r}"
            yield PipelineFileError(
                f"tables[{first}] is a rule for the same table and {whose}: merge them", (*path, "name")
            )
        if declared_schemas.is_pattern(rule) and (rule.columns or rule.key or rule.id is not None):
            yield PipelineFileError(
                "a pattern sets the mode and the schema policy of tables, not their columns", (*path, "name")
            )


def _in_source_name(definition: Definition, source: str | None, path: Path) -> Problems:
    names = [one.name for one in definition.sources]
    if source is not None and source not in names:
        yield PipelineFileError(f"there is no source {source!r}; {nearest(source, names)}", (*path, "source"))


def _in_captured(definition: Definition, rule: TableRule, path: Path) -> Problems:
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
        yield PipelineFileError(problem, (*path, asked[0]))


def _in_number(rule: TableRule, numbers: dict[int, list[str | None]], path: Path) -> Problems:
    assert rule.id is not None
    if not rule.columns:
        yield PipelineFileError("an id identifies columns: write them under columns", path)
        return
    others = numbers.setdefault(rule.id, [])
    if rule.source in others or (others and None in (rule.source, *others)):
        yield PipelineFileError(f"another table also has the id {rule.id}", path)
    others.append(rule.source)


def _in_feed(definition: Definition, feed: Feed, path: Path) -> Problems:
    yield from _in_source_name(definition, feed.source, path)
    if isinstance(feed.topic, KafkaTopic):
        yield from _unreadable(check_template, feed.topic.name, (*path, "topic", "name"))
    try:
        TableName.parse(feed.table)
    except UsageError as error:
        yield PipelineFileError(str(error), (*path, "table"))
        return
    try:
        declared_feed(feed)
    except OptionError as error:
        given = next(
            (name for name in feed.settings if error.option is not None and is_option(name, error.option)), None
        )
        yield PipelineFileError(str(error), (*path, "with") if given is None else (*path, "with", given))
    except FormatOptionError as error:
        yield PipelineFileError(str(error), (*path, "options"))


def _in_source_with_rules(definition: Definition, source: RecordSource, path: Path, folder: Folder) -> Problems:
    known = ReadOptions(schemas=tuple(declared_schemas.known_schemas(source, folder)))
    for place, rule in enumerate(definition.tables):
        schema = known.schema_of(TableName.parse(rule.name)) if rule.source in (None, source.name) else None
        if schema is not None and not rule.columns:
            columns = {column.name: column.type for column in schema.columns}
            yield from _in_key(rule.key, columns, ("tables", place, "key"))
    form = registry.get(source.format)
    yield from _unreadable(
        lambda given: form.reader(declared_schemas.options_of(definition, given, folder)), source, path
    )
