"""Loads a pipeline file: YAML that is only data, values of the environment, errors that name the line."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from changeling.formats.options import ReadOptions
from changeling.model.errors import UsageError
from changeling.model.table import TableName, TableSchema
from changeling.pipelines import declared_schemas, struct_validation, validation
from changeling.pipelines.definition import Definition, RecordSource, TableRule
from changeling.pipelines.secrets import MASK, redactor
from changeling.pipelines.yaml_text import Path as PlaceInFile
from changeling.pipelines.yaml_text import PipelineFileError, Reader, compose, format_path

if TYPE_CHECKING:
    from changeling.log.schema_registry import Policy

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_SHAPE = msgspec.inspect.type_info(Definition)


class WrongPipelineFile(UsageError):
    """A pipeline file has problems: a line of text for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class LoadedPipeline:
    """A pipeline, its file, and the secrets in it, which must never be shown."""

    definition: Definition = field(repr=False)
    path: Path
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def folder(self) -> Path:
        """The folder of the pipeline file: its paths are relative to it."""
        return self.path.parent

    @property
    def warehouse(self) -> str:
        """The warehouse as an absolute path, or the address as it is written."""
        place = self.resolve(self.definition.warehouse)
        return declared_schemas.without_dots(place) if os.path.isabs(place) else place

    def resolve(self, text: str) -> str:
        """A path of the pipeline as an absolute one; addresses such as s3://… stay as they are, and so does `~`."""
        return declared_schemas.resolved(text, self.folder)

    def redacted(self, text: str) -> str:
        """The text without any password or what looks like one, nor its quoted, escaped and Base64 forms.

        One of up to three characters is masked only as a separate word, since any text may contain it.
        """
        return redactor(self.secrets)(text)

    def rules(self, source: str) -> list[TableRule]:
        """The rules for tables of a source, by its name. If several match a table, the first one applies."""
        return declared_schemas.rules_of(self.definition, source)

    def rule(self, source: str, table: TableName) -> TableRule | None:
        """The rule that applies to a table of a source, if there is one."""
        return next((rule for rule in self.rules(source) if declared_schemas.applies(rule, table)), None)

    def mode(self, source: str, table: TableName) -> str:
        """What the replica of a table contains: `merge`, `history`, `append`, or `typed` for a typed table of every change."""
        rule = self.rule(source, table)
        return "merge" if rule is None else "typed" if rule.typed else rule.mode

    def policy(self, source: str, table: TableName) -> "Policy":
        """What becomes of new versions of a table's schema."""
        rule = self.rule(source, table)
        return "evolve" if rule is None else rule.schema

    def read_options(self, source: RecordSource, *, schemas: tuple[TableSchema, ...] = ()) -> ReadOptions:
        """The checked options to read a source with: its own, and what the pipeline declares about its tables.

        `schemas` are further ones, for tables about which nothing is declared. Raises `UsageError`, as loading does, where the
        schema file has become invalid.
        """
        try:
            return declared_schemas.options_of(self.definition, source, self.folder, schemas)
        except UsageError as error:
            raise UsageError(self.redacted(f"{self.path.name}: source {source.name!r}: {error}")) from None


def load(path: str | Path) -> LoadedPipeline:
    """The pipeline of a file.

    Raises `WrongPipelineFile` with all that is wrong: for each problem the file, the line, the setting and a similar name.
    """
    file = Path(path)
    try:
        content = file.read_bytes()
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    reader = Reader()
    try:
        node = compose(content)
        if node is None:
            raise PipelineFileError("the file is empty; a pipeline has name, warehouse and sources", line=1)
        data = reader.value(node)
    except PipelineFileError as wrong:
        raise WrongPipelineFile([_message(wrong, reader, path)]) from None
    place = Path(declared_schemas.without_dots(str(file.absolute())))
    problems = [*reader.missing, *struct_validation.problems(data, _SHAPE)]
    if isinstance(data, dict):
        definition = msgspec.convert(with_stand_ins(data, problems[len(reader.missing) :]), Definition)
        problems += validation.problems_of_parts(definition, place.parent)
    if not problems:
        problems += validation.problems_of_sources_with_rules(definition, place.parent)
    if problems:
        # A problem may be the consequence of another one at the same place.
        first: dict[PlaceInFile, PipelineFileError] = {}
        for problem in problems:
            first.setdefault(problem.path, problem)
        ordered = sorted(first.values(), key=lambda problem: _line(problem, reader))
        raise WrongPipelineFile([_message(problem, reader, path) for problem in ordered])
    return LoadedPipeline(definition, place, tuple(dict.fromkeys(reader.secrets)))


def _line(wrong: PipelineFileError, reader: Reader) -> int:
    line, at = wrong.line, wrong.path
    while line is None and at:
        line, at = reader.lines.get(at), at[:-1]
    return line or reader.lines.get((), 1)


def _message(wrong: PipelineFileError, reader: Reader, file: str | Path) -> str:
    problem = wrong.problem
    if any(path[: len(wrong.path)] == wrong.path and len(path) <= len(wrong.path) + 1 for path in reader.filled):
        # Names are shown in quotes, perhaps without blanks or in lower case, where a secret could not be recognized.
        problem = _QUOTED.sub(f"'{MASK}'", problem)
    problem = redactor((*reader.secrets, *reader.filled.values()))(problem)
    start, where = f"{file}:{_line(wrong, reader)}", format_path(wrong.path)
    return f"{start}: {where}: {problem}" if where else f"{start}: {problem}"


def find(given: str | None = None) -> Path:
    """The pipeline file to use: the one given, else the only one in the current folder; raises `UsageError` naming them all.

    A file counts when it is called `*.yaml` or `*.yml`, and is a YAML mapping with `sources`.
    """
    if given is not None:
        return Path(given)
    files = sorted(file for file in Path().iterdir() if file.suffix in (".yaml", ".yml") and file.is_file())
    found, broken = [], []
    for file in files:
        try:
            node = compose(file.read_bytes())
        except (OSError, PipelineFileError):
            broken.append(file)
            continue
        if isinstance(node, yaml.MappingNode) and any(key.value == "sources" for key, _ in node.value):
            found.append(file)
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"there are {len(found)} pipelines here: {_listed(found)}; choose one with --pipeline FILE")
    hint = f" ({_listed(broken)} cannot be read as YAML)" if broken else ""
    raise UsageError(f"there is no pipeline in this folder{hint}; name one with --pipeline FILE")


def _listed(files: list[Path]) -> str:
    return ", ".join(map(str, files))


_DATABASE: dict[str, Any] = {"type": "postgres", "url": "postgresql:", "tables": ["t"]}
_SOURCES: dict[str, dict[str, Any]] = {
    "files": {"type": "files", "path": ".", "format": "xtdb"},
    "kafka": {"type": "kafka", "servers": "h", "topics": ["t"], "format": "xtdb"},
    "postgres": _DATABASE,
}
_PARTS: dict[str, dict[str, Any]] = {
    "sources": _SOURCES["files"],
    "tables": {},
    "feeds": {"table": "t", "with": {"FORMAT": "JSON", "MODE": "UPDATES"}},
    "targets": _DATABASE,
}
"""The members that are lists, and a part of each that nothing is wrong with."""
_REQUIRED = {"name": "p", "warehouse": ".", "sources": [{"name": "s", **_PARTS["sources"]}]}
_DECISIVE = ("type", "format", "with")
"""What other members of a part can mean depends on these."""


def with_stand_ins(data: dict[str, Any], problems: Iterable[PipelineFileError]) -> dict[str, Any]:
    """The data without the members that have a problem; where one is required, with one that nothing is wrong with."""
    paths = [problem.path for problem in problems]
    mended = dict(data)
    for path in paths:
        match path:
            case (str(member), int(), *_) if member in _PARTS:
                mended[member] = [_mended(member, place, part, paths) for place, part in enumerate(data[member])]
            case (str(member), *_):
                mended.pop(member, None)
    return {**_REQUIRED, **mended}


def _mended(member: str, place: int, part: Any, paths: Iterable[PlaceInFile]) -> dict[str, Any]:
    wrong = {path[2] if len(path) > 2 else None for path in paths if path[:2] == (member, place)}
    if not wrong:
        return part  # type: ignore[no-any-return]
    given = part if isinstance(part, dict) else {}
    right = {name: value for name, value in given.items() if name not in wrong}
    kind = given.get("type")
    stand_in = _SOURCES.get(kind, _PARTS[member]) if member == "sources" and isinstance(kind, str) else _PARTS[member]
    if any(name in stand_in and name not in right for name in _DECISIVE):
        # Other parts may name a source.
        right = {name: value for name, value in right.items() if name == "name" and member == "sources"}
    return {"name": f"part{place}", **stand_in, **right}
