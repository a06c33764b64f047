"""Reads a pipeline file: YAML that is only data, values of the environment, errors that name the line."""

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from changeling.model.errors import UsageError
from changeling.pipelines.definition import Definition

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PATH = re.compile(r"\.([^.\[\]`]+)|\[(\d+|\.\.\.)\]")


@dataclass(frozen=True)
class Loaded:
    """A pipeline, the folder that its paths are relative to, and the values that must never be shown."""

    definition: Definition
    path: Path
    secrets: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Where the pipeline file lies."""
        return self.path.parent

    def redacted(self, text: str) -> str:
        """The text without any value that came from the environment."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            if len(secret) > 2:
                text = text.replace(secret, "***")
        return text


def load(path: str | Path) -> Loaded:
    """The pipeline of a file; raises `UsageError` naming the line, what is wrong, and the near name."""
    place = Path(path)
    try:
        text = place.read_text()
    except OSError as error:
        raise UsageError(f"{place}: {error.strerror}") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}:" if mark else ""
        raise UsageError(f"{place}:{where} not YAML: {getattr(error, 'problem', error)}") from None
    if node is None:
        raise UsageError(f"{place}: the file is empty; a pipeline has name, warehouse and sources")
    reader = _Reader(place)
    data = reader.value(node, "$")
    try:
        definition = msgspec.convert(data, Definition)
        definition.check()
    except msgspec.ValidationError as error:
        raise UsageError(reader.explained(str(error), data)) from None
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None
    return Loaded(definition, place.resolve(), tuple(reader.secrets))


def find(given: str | None) -> Path:
    """The pipeline file to use: the one given, else the only one in this folder."""
    if given is not None:
        return Path(given)
    found = [path for path in sorted(Path().glob("*.y*ml")) if re.search(r"^sources:", path.read_text(), re.MULTILINE)]
    if len(found) != 1:
        told = "none" if not found else ", ".join(str(path) for path in found)
        raise UsageError(f"say which pipeline with --pipeline FILE: found {told} in this folder")
    return found[0]


class _Reader:
    """Turns YAML nodes into plain values and remembers the line of each."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._lines: dict[str, int] = {}
        self.secrets: list[str] = []

    def value(self, node: yaml.Node, path: str) -> Any:
        self._lines[path] = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            made = {}
            for key_node, value_node in node.value:
                key = str(key_node.value)
                if key in made:
                    raise UsageError(f"{self._place} line {key_node.start_mark.line + 1}: {key!r} stands there twice")
                self._lines[f"{path}.{key}"] = key_node.start_mark.line + 1
                made[key] = self.value(value_node, f"{path}.{key}")
            return made
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, f"{path}[{place}]") for place, item in enumerate(node.value)]
        return self._scalar(node)

    def _scalar(self, node: yaml.Node) -> Any:
        plain = yaml.SafeLoader("")
        try:
            found = plain.construct_object(node, deep=True)
        except yaml.YAMLError as error:
            raise UsageError(f"{self._place} line {node.start_mark.line + 1}: {getattr(error, 'problem', error)}") from None
        return _VARIABLE.sub(lambda match: self._variable(match[1], node), found) if isinstance(found, str) else found

    def _variable(self, name: str, node: yaml.Node) -> str:
        value = os.environ.get(name)
        if value is None:
            raise UsageError(f"{self._place} line {node.start_mark.line + 1}: the environment has no {name}; set it first")
        self.secrets.append(value)
        return value

    def explained(self, message: str, data: Any) -> str:
        """msgspec's message with the line, and the near name of an unknown member."""
        problem, _, path = message.partition(" - at `")
        path = path.rstrip("`") or "$"
        line = self._lines.get(path)
        while line is None and path != "$":
            path = path[: max(path.rfind("."), path.rfind("["))]
            line = self._lines.get(path)
        if unknown := re.search(r"unknown field `([^`]+)`", problem):
            line = self._lines.get(f"{path}.{unknown[1]}", line)
            close = difflib.get_close_matches(unknown[1], _members(path), n=1)
            problem = f"there is no setting {unknown[1]!r} here" + (f"; did you mean {close[0]!r}?" if close else "")
        return f"{self._place} line {line}: {problem}" + ("" if path == "$" else f" (at {path[2:]})")


def _members(path: str) -> list[str]:
    """The settings that exist anywhere: the near one is what a user wants to hear."""
    from changeling.pipelines import definition

    kinds = [definition.FilesSource, definition.KafkaSource] if ".sources[" in path else [definition.TableRule]
    if path == "$":
        kinds = [Definition]  # type: ignore[list-item]
    return [field.encode_name for kind in kinds for field in msgspec.structs.fields(kind)]
