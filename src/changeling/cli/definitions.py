"""Words and what they mean, in two columns."""

import textwrap
from collections.abc import Iterable, Iterator

WIDTH = 80
"""What every terminal has."""


def definitions(pairs: Iterable[tuple[str, str]], indent: str = "") -> Iterator[str]:
    """Lines of at most `WIDTH` letters: the words on the left, what they mean on the right."""
    listed = list(pairs)
    width = max((len(word) for word, _ in listed), default=0) + 2
    for word, meaning in listed:
        start = f"{indent}{word:<{width}}"
        further = " " * len(start)
        yield from textwrap.wrap(
            meaning, WIDTH, initial_indent=start, subsequent_indent=further, break_on_hyphens=False
        ) or [start.rstrip()]
