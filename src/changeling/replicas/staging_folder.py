"""The folder alongside the points where folds stage rows before they are completed: who staged them, and what was left behind."""

import re
from collections import defaultdict
from contextlib import suppress
from datetime import datetime
from uuid import uuid4

from pyarrow import fs

from changeling.iceberg.parquet_files import filesystem

_FOLDER = "staged"
_OF_MERGE = re.compile(r"point-([0-9]+)-.*")


def folder_of_merge(points: str, number: int) -> str:
    """A new folder for the rows of a merge, given the location of the table `points` and the point of the merge."""
    return f"{points}/{_FOLDER}/point-{number}-{uuid4()}"


def write_plan(folder: str, plan: bytes) -> str:
    """Keeps the plan of a merge with its rows, until its point is recorded; returns where."""
    path = f"{folder}/plan.json"
    store, inner = filesystem(path)
    if isinstance(store, fs.LocalFileSystem):
        store.create_dir(inner.rpartition("/")[0], recursive=True)
    with store.open_output_stream(inner) as sink:
        sink.write(plan)
    return path


def read_plan(kept: str) -> bytes:
    """The plan of an interrupted merge, by what a commit says of it: where it is, or the plan itself as older commits have it."""
    if kept.startswith("{"):
        return kept.encode()
    store, inner = filesystem(kept)
    with store.open_input_stream(inner) as source:
        return bytes(source.readall())


def remove_folder(folder: str) -> None:
    """Removes what a merge put into its folder; what cannot be removed now, maintenance removes."""
    store, inner = filesystem(folder)
    with suppress(OSError):
        store.delete_dir(inner)


def folder_of_reader(points: str) -> str:
    """A new folder for the rows of a reader of a state."""
    return f"{points}/{_FOLDER}/{uuid4()}"


def remove_leftovers(points: str, last: int, before: datetime) -> tuple[int, int]:
    """Removes what is no longer needed; returns the number of files found and removed.

    A merge has released its rows when its point exists, whether `last` or earlier; time is not considered, since a merge may
    take any time. Readers leave no such trace: theirs go when nothing of them was written since `before`.
    """
    store, path = filesystem(f"{points}/{_FOLDER}")
    folders: dict[str, list[fs.FileInfo]] = defaultdict(list)
    for info in store.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True)):
        folders[info.path.removeprefix(path).strip("/").partition("/")[0]].append(info)
    there = removed = 0
    for name, found in folders.items():
        files = sum(info.is_file for info in found)
        there += files
        if _is_left(name, found, last, before):
            store.delete_dir(f"{path}/{name}")
            removed += files
    return there, removed


def _is_left(name: str, found: list[fs.FileInfo], last: int, before: datetime) -> bool:
    if match := _OF_MERGE.fullmatch(name):
        return int(match[1]) <= last
    return all(info.mtime is None or info.mtime < before for info in found)
