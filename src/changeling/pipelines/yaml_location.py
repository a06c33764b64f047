"""Where something is wrong in a pipeline file."""

import re
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""The way from the top of the file to a value: names of members and places in lists."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Wrong(Exception):
    """Something in a pipeline file is wrong; where the line is not told, it is that of the path."""

    def __init__(self, problem: str, path: Path = (), line: int | None = None) -> None:
        super().__init__(problem)
        self.problem, self.path, self.line = problem, path, line


def shown(path: Path) -> str:
    """A path for people: `sources[0].options.mode`, `columns["a b"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text
