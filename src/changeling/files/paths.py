"""Where records are read from: files, folders, patterns, standard input and objects of S3."""

import glob
import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from posixpath import basename, dirname
from typing import Any

from pyarrow import fs

from changeling.files import s3
from changeling.files.gunzip import Input
from changeling.model.errors import ChangelingError, UsageError, perhaps_meant
from changeling.model.printable import printable

STDIN = "-"


@dataclass(frozen=True, slots=True)
class FileRef:
    """One file to read: its path as it was given or matched, and its size on storage where that is known."""

    path: str
    size: int | None = None
    tag: str | None = None
    """Distinguishes this version of the file from a later one: when it was last changed."""
    is_peeked: bool = False
    """Of standard input, only what can be seen without consuming it."""


class NoFileFound(UsageError):
    """A path names or matches no file at present."""


def expand(paths: Sequence[str], on_skip: Callable[[str], None] | None = None) -> list[FileRef]:
    """The files that paths name or match, in the order given, sorted inside each folder or pattern.

    A path is a file, a folder (all files below it), a pattern with `*`, `?` or `**` (any number of folders), `-` for standard
    input, or any of the first three under `s3://bucket/`. Names that start with `.` or `_` are left out unless they are
    spelled out. A path that matches nothing raises `NoFileFound`. An entry of a folder or pattern that is not a file, or whose
    name is not text, raises `ChangelingError`; with `on_skip`, it is reported there and skipped.
    """
    return [file for path in paths for file in _expand_one(path, on_skip)]


def _expand_one(path: str, on_skip: Callable[[str], None] | None) -> list[FileRef]:
    if path == STDIN:
        return [FileRef(STDIN)]
    if path.startswith(s3.SCHEME):
        return _expand_object(path)
    try:
        if os.path.exists(path):
            found = _below(path) if os.path.isdir(path) else [path]
        else:
            # Brackets are not a pattern here: names may have them.
            matches = glob.glob(path.replace("[", "[[]"), recursive=True) if _is_pattern(path) else []
            files = {name for match in matches for name in (_below(match) if os.path.isdir(match) else [match])}
            found = sorted(name for name in files if _is_spelled_out(name, path))
        if on_skip is not None:
            found = [name for name in found if _is_readable(name, on_skip)]
        return [_local(name) for name in found] or _nothing(path, lambda: os.listdir(dirname(path) or "."))
    except OSError as error:
        raise ChangelingError(f"{printable(path)}: {error.strerror or error}") from None


def _local(path: str) -> FileRef:
    try:
        status = os.stat(path)
    except OSError as error:
        raise ChangelingError(f"{printable(path)}: {error.strerror or error}") from None
    if not stat.S_ISREG(status.st_mode):
        return FileRef(path)
    return FileRef(path, status.st_size, str(status.st_mtime_ns))


def _is_readable(path: str, on_skip: Callable[[str], None]) -> bool:
    if not os.path.isfile(path):
        on_skip(f"{path!r} is not a file")
    elif not path.isprintable():
        on_skip(f"{path!r} has a name that cannot be shown: it is not UTF-8, or has invisible characters")
    else:
        return True
    return False


def _below(folder: str) -> list[str]:
    found: list[str] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if _is_shown(name)]
        found += [os.path.join(parent, name) for name in names if _is_shown(name)]
    return sorted(found)


def _is_pattern(path: str) -> bool:
    return "*" in path or "?" in path


def _is_shown(name: str) -> bool:
    return not name.startswith((".", "_"))


def _is_spelled_out(path: str, pattern: str) -> bool:
    """Whether each hidden name in a path matches a hidden name in the pattern."""
    hidden = [part for part in pattern.split("/") if not _is_shown(part)]
    return all(_is_shown(name) or any(fnmatchcase(name, part) for part in hidden) for name in path.split("/"))


def _expand_object(address: str) -> list[FileRef]:
    bucket, key = s3.bucket_and_key(address)
    store = s3.filesystem()
    with s3.naming_errors(address):
        s3.check_bucket(bucket)
        if key and not key.endswith("/"):
            found = store.get_file_info(f"{bucket}/{key}")
            if found.type == fs.FileType.File:
                return [_object(found)]
        fixed = re.split(r"[*?]", key, maxsplit=1)[0]
        folder = dirname(fixed) if _is_pattern(key) else key.rstrip("/")
        listed = _objects(store, f"{bucket}/{folder}".rstrip("/"))
    if _is_pattern(key):
        fits = _pattern(f"{bucket}/{key}").fullmatch
        listed = [found for found in listed if fits(found.path) and _is_spelled_out(found.path, key)]
    else:
        root = len(f"{bucket}/{folder}".rstrip("/")) + 1
        listed = [found for found in listed if all(map(_is_shown, found.path[root:].split("/")))]
    files = [_object(found) for found in sorted(listed, key=lambda found: str(found.path))]
    near = f"{bucket}/{dirname(key.rstrip('/'))}".rstrip("/")
    return files or _nothing(address, lambda: [found.base_name for found in _objects(store, near, recursive=False)])


def _object(found: fs.FileInfo) -> FileRef:
    return FileRef(s3.SCHEME + found.path, found.size, str(found.mtime_ns))


def _objects(store: fs.FileSystem, folder: str, recursive: bool = True) -> list[fs.FileInfo]:
    selector = fs.FileSelector(folder, allow_not_found=True, recursive=recursive)
    return [found for found in store.get_file_info(selector) if not recursive or found.type == fs.FileType.File]


def _pattern(text: str) -> re.Pattern[str]:
    spelled = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", text)
    return re.compile("".join(spelled.get(part, re.escape(part)) for part in parts), re.DOTALL)


def _nothing(path: str, siblings: Callable[[], Iterable[str]]) -> list[FileRef]:
    if _is_pattern(path):
        raise NoFileFound(f"{printable(path)}: no file matches")
    try:
        names = [name for name in siblings() if _is_shown(name)]
    except OSError:
        raise NoFileFound(f"{printable(path)}: there is no such file, and no such folder") from None
    name = basename(path.rstrip("/"))
    if name in names:
        raise NoFileFound(f"{printable(path)}: there is no file in this folder")
    meant = perhaps_meant(name, names)
    raise NoFileFound(f"{printable(path)}: there is no such file{'' if meant is None else f'; {meant}'}")


def missing_folder(path: str) -> str | None:
    """The local folder that a path names, or in which its pattern begins, if there is no such folder."""
    if path == STDIN or path.startswith(s3.SCHEME):
        return None
    folder = dirname(re.split(r"[*?]", path, maxsplit=1)[0]) if _is_pattern(path) else path
    return None if os.path.isdir(folder or ".") else folder


def changed(file: FileRef) -> str | None:
    """How a file changed since it was listed, for people; None if it is still the same."""
    try:
        now = expand([file.path])
    except NoFileFound:
        return "it is gone"
    if now == [file]:
        return None
    if len(now) != 1 or now[0].size != file.size:
        return (
            f"it had {file.size:,} bytes and has {now[0].size:,}"
            if now[0].size is not None
            else "it is not a file any more"
        )
    return "it was written again"


class _Named:
    """A file whose errors name it. Standard input is never closed: it is not ours."""

    def __init__(self, path: str) -> None:
        self._path = path
        with s3.naming_errors(path):
            if path == STDIN:
                self._file: Any = sys.stdin.buffer
            elif path.startswith(s3.SCHEME):
                self._file = s3.filesystem().open_input_stream("/".join(s3.bucket_and_key(path)), compression=None)
            else:
                self._file = open(path, "rb", buffering=0)  # noqa: SIM115  # the caller closes it

    def read(self, size: int, /) -> bytes:
        with s3.naming_errors(self._path):
            return bytes(self._file.read(size))

    def close(self) -> None:
        if self._path != STDIN:
            self._file.close()


def open_input(file: FileRef) -> Input:
    """Opens a file to read, decompressed where it is gzip (whatever its name says)."""
    if file.is_peeked and file.path == STDIN:
        stdin = sys.stdin.buffer
        return Input(io.BytesIO(stdin.peek() if isinstance(stdin, io.BufferedReader) else b""))
    return Input(_Named(file.path))


def total_bytes(files: Sequence[FileRef]) -> int | None:
    """How many bytes all files have on storage; None if the size of one is unknown."""
    sizes = [file.size for file in files]
    return None if None in sizes else sum(size for size in sizes if size is not None)
