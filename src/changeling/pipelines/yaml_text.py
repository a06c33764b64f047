"""Reads YAML as plain data: texts, whole numbers, booleans, lists and mappings, and the line of each; and locates errors.

Readers of YAML 1.1 and 1.2 disagree on what `no`, `010`, `1:30` or `2024-01-01` mean. Here everything is text except
`true`, `false`, `null` and plain whole numbers, and words that some readers take for a boolean are refused unless they are quoted.
"""

import os
import re
from typing import Any, TypeAlias

import yaml

from changeling.pipelines.secrets import is_secret_name, secrets_in

Path: TypeAlias = tuple[str | int, ...]
"""The path from the top of the file to a value: names of members and indexes in lists."""

MAX_BYTES = 1_000_000
MAX_VALUES = 100_000

_TAG = "tag:yaml.org,2002:"
_TEXT = f"{_TAG}str"
_SCALARS = {f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value")}
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_DOUBTFUL = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_BARE_VARIABLE = re.compile(r"""(?:\{.*?[:,]|\[(?:.*?,)?)\s*[^"'\s\[\]{},]*\$\{""")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")


class PipelineFileError(Exception):
    """Something in a pipeline file is wrong; without a line, it is that of the path."""

    def __init__(self, problem: str, path: Path = (), line: int | None = None) -> None:
        super().__init__(problem)
        self.problem, self.path, self.line = problem, path, line


def format_path(path: Path) -> str:
    """A path as text: `sources[0].options.mode`, `columns["a b"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def compose(content: bytes) -> yaml.Node | None:
    """The nodes of a YAML text, None where it is empty; raises `PipelineFileError` with the line."""
    if len(content) > MAX_BYTES:
        raise PipelineFileError(f"larger than {MAX_BYTES} bytes: this is not a pipeline")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PipelineFileError("not UTF-8", line=content.count(b"\n", 0, error.start) + 1) from None
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except RecursionError:
        raise PipelineFileError("nested too deeply") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        letter = text[error.position]
        raise PipelineFileError(f"not YAML: the character {letter!r} is not allowed", line=line) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise PipelineFileError(f"not YAML: {error.problem}{_hint(text, line)}", line=line) from None
    return node


def _hint(text: str, line: int) -> str:
    lines = text.split("\n")
    if line <= len(lines) and _BARE_VARIABLE.search(lines[line - 1]):
        return "; inside of { } and [ ] a value with ${…} must be quoted"
    return ""


class Reader:
    """Converts nodes into plain values, fills in environment variables, and remembers the line of each value."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.secrets: list[str] = []
        """Passwords and the like, from the environment or written out."""
        self.filled: dict[Path, str] = {}
        """The texts into which a variable brought one."""
        self.missing: list[PipelineFileError] = []
        """Variables that the environment does not have; the texts stay as they are written."""
        self._open: set[int] = set()
        self._count = 0

    def value(self, node: yaml.Node, path: Path = ()) -> Any:
        """The value of a node; raises `PipelineFileError` where it is more than plain data."""
        self.lines.setdefault(path, _line(node))
        self._count += 1
        if self._count > MAX_VALUES:
            raise PipelineFileError(
                f"aliases make more than {MAX_VALUES} values of it: this is not a pipeline", path, _line(node)
            )
        if isinstance(node, yaml.ScalarNode):
            _check_tag(node, path, _SCALARS)
            found = _scalar(node, path)
            return self._with_variables(found, node, path) if isinstance(found, str) else found
        if id(node) in self._open:
            raise PipelineFileError("an alias is inside of what it repeats", path, _line(node))
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                _check_tag(node, path, {f"{_TAG}map"})
                return self._mapping(node, path)
            _check_tag(node, path, {f"{_TAG}seq"})
            return [self.value(item, (*path, place)) for place, item in enumerate(node.value)]
        except RecursionError:
            raise PipelineFileError("nested too deeply") from None
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        own: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                continue
            key = _key(key_node, path)
            if key in own:
                first = _line(own[key][0])
                raise PipelineFileError(f"is listed twice, first in line {first}", (*path, key), _line(key_node))
            own[key] = (key_node, value_node)
        members: dict[str, Any] = {}
        for key, (key_node, value_node) in own.items():
            self.lines[*path, key] = _line(key_node)
            members[key] = self.value(value_node, (*path, key))
        for other in merged:
            if not isinstance(other, yaml.MappingNode):
                raise PipelineFileError("<< takes a mapping, or a list of mappings", path, _line(other))
            if id(other) in self._open:
                raise PipelineFileError("an alias is inside of what it repeats", path, _line(other))
            # The mapping's own members win, then those that were merged first.
            missing = [pair for pair in other.value if not _is_known(pair[0], members)]
            members.update(self.value(yaml.MappingNode(other.tag, missing, other.start_mark), path))
        return members

    def _with_variables(self, text: str, node: yaml.Node, path: Path) -> str:
        def fill(match: re.Match[str]) -> str:
            if match[0] == "$${":
                return "${"
            if match[1] is None:
                raise PipelineFileError("${ begins a variable: write ${NAME}, or $${ for a plain ${", path, _line(node))
            value = os.environ.get(match[1])
            if value is None:
                problem = f"the environment has no variable {match[1]}; set it first"
                self.missing.append(PipelineFileError(problem, path, _line(node)))
                return match[0]
            try:
                value.encode()
            except UnicodeEncodeError:
                raise PipelineFileError(f"the variable {match[1]} is not UTF-8", path, _line(node)) from None
            if is_secret_name(match[1]):
                self.secrets.append(value)
            self.secrets += secrets_in(value)
            return value

        before = len(self.secrets)
        filled = _VARIABLE.sub(fill, text)
        self.secrets += secrets_in(filled)
        if filled and len(self.secrets) == before and _is_secret_setting(path):
            self.secrets.append(filled)
        if len(self.secrets) > before and filled != text:
            self.filled[path] = filled
        return filled


def _is_secret_setting(path: Path) -> bool:
    """Names of columns are no settings: what is said of a column `token` is its type."""
    return bool(path) and isinstance(path[-1], str) and is_secret_name(path[-1]) and "columns" not in path


def _line(node: yaml.Node) -> int:
    line: int = node.start_mark.line
    return line + 1


def _check_tag(node: yaml.Node, path: Path, known: set[str]) -> None:
    if node.tag not in known:
        tag = node.tag.replace(_TAG, "!!", 1)
        raise PipelineFileError(f"the tag {tag} is not allowed: a pipeline is plain data", path, _line(node))


def _check_unicode(node: yaml.ScalarNode, path: Path) -> None:
    try:
        node.value.encode()
    except UnicodeEncodeError:
        raise PipelineFileError("not Unicode: it has half of a surrogate pair", path, _line(node)) from None


def _scalar(node: yaml.ScalarNode, path: Path) -> str | int | bool | None:
    _check_unicode(node, path)
    text: str = node.value
    if node.tag == _TEXT:
        return text
    word = text.lower()
    if word in _DOUBTFUL:
        problem = f"{text} is a boolean to some readers of YAML: write {_DOUBTFUL[word]}, or put it in quotes"
        raise PipelineFileError(problem, path, _line(node))
    if word in _WORDS:
        return _WORDS[word]
    return int(text) if _WHOLE.fullmatch(text) else text


def _key(node: yaml.Node, path: Path) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise PipelineFileError("a name must be text, not a list or a mapping", path, _line(node))
    _check_tag(node, path, _SCALARS)
    _check_unicode(node, path)
    if node.tag != _TEXT and (node.value.lower() in {*_WORDS, *_DOUBTFUL} or _WHOLE.fullmatch(node.value)):
        raise PipelineFileError(
            f"the name {node.value or '(nothing)'} is not text to YAML: put it in quotes", path, _line(node)
        )
    return str(node.value)


def _is_known(key: yaml.Node, members: dict[str, Any]) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.value in members
