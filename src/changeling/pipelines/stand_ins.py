"""Stands in for what has a wrong shape in a pipeline file, so that what the rest of it says can be checked as well."""

from collections.abc import Iterable
from typing import Any

from changeling.pipelines.yaml_text import Path, PipelineFileError

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


def _mended(member: str, place: int, part: Any, paths: Iterable[Path]) -> dict[str, Any]:
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
