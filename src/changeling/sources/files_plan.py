"""Plans over files: which files a batch reads, and which of those that exist no plan has yet. Does no I/O."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec


class File(msgspec.Struct, frozen=True, array_like=True):
    """A file as it was listed; its path is relative to the folder of the pipeline."""

    path: str
    size: int | None
    tag: str | None
    """When it was last changed, in nanoseconds since 1970."""


class FilesPlan(msgspec.Struct, frozen=True):
    """Files to read, and the number of the first among all files of the source."""

    first: int
    files: tuple[File, ...]


parse_plan: Callable[[str], FilesPlan] = msgspec.json.Decoder(FilesPlan).decode


def unread(listed: Iterable[File], plans: Iterable[str]) -> list[File]:
    """The files that no plan has."""
    known = {file.path for plan in plans for file in parse_plan(plan).files}
    return [file for file in listed if file.path not in known]


def absolute(path: str, folder: Path) -> str:
    """A path of a plan as one that can be opened."""
    return path if "://" in path else os.path.normpath(folder / path)


def relative(path: str, folder: Path) -> str:
    """A path as plans have it."""
    return path if "://" in path else os.path.relpath(path, folder)
