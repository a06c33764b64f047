"""Makes a warehouse that was moved or copied whole again: Iceberg's paths are absolute, and have to name the new place.

Files are rewritten where they lie, each as a whole, and before those that refer to them; the catalog is changed last, in one
transaction. So an interrupted relocation is done again from the start: what is rewritten already does not change, and meanwhile
nobody takes the tables for whole, because the catalog still names the old place. Data files stay as they are.
"""

import json
import os
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from changeling.iceberg import avro_files, deletion_vectors
from changeling.iceberg.catalog import Catalog, lies_in
from changeling.iceberg.failpoints import reach
from changeling.model.errors import ChangelingError, UsageError

_PATH_FIELD = 2147483546
"""Iceberg's reserved id of the path in files of deletes: some writers note its bounds for deletion vectors."""
_PUFFIN, _MANIFESTS, _LISTS, _JSON = range(4)
_MANIFEST_LIST = "manifest_path"
"""A field that manifest lists have, and manifests have not."""


@dataclass(frozen=True)
class Relocated:
    """The result of a relocation."""

    from_places: list[str]
    """Where the warehouse was; empty where all is well already."""
    tables: int = 0
    files: int = 0
    """How many were rewritten."""


class _Move:
    """Paths in earlier places of a warehouse, as they are in the new one; paths in the new one and elsewhere stay."""

    def __init__(self, before: Sequence[str], warehouse: str) -> None:
        self._before, self._warehouse = before, warehouse
        self._in_json = [_JsonPaths(before, warehouse, depth) for depth in (1, 2)]

    def path(self, text: str) -> str:
        """A path in the new place."""
        path = _local(text)
        if path.startswith(f"{self._warehouse}/"):
            return text
        for place in self._before:
            if path.startswith(f"{place}/"):
                return f"{text.removesuffix(path)}{self._warehouse}{path.removeprefix(place)}"
        return text

    def json(self, content: bytes) -> bytes:
        """A JSON text with strings that begin with such a path, also in JSON inside of strings.

        No other byte changes: numbers keep their digits.
        """
        for paths in self._in_json:
            content = paths.moved(content)
        return content


class _JsonPaths:
    """Paths in a JSON text, in strings (depth 1) or in JSON that is in strings (depth 2)."""

    def __init__(self, before: Sequence[str], warehouse: str, depth: int) -> None:
        self._warehouse = _quoted(warehouse, depth)
        quote = rb'(?<!\\)"' if depth == 1 else rb'(?<!\\)\\"'
        places = b"|".join(re.escape(_quoted(place, depth)) for place in before)
        # The new place may lie in an earlier one: what is moved already must not be moved again.
        self._pattern = re.compile(
            rb"(%s(?:file:(?://)?)?)(?!%s/)(?:%s)(?=/)" % (quote, re.escape(self._warehouse), places)
        )

    def moved(self, content: bytes) -> bytes:
        return self._pattern.sub(lambda found: found[1] + self._warehouse, content)


def relocate(catalog: Catalog) -> Relocated:
    """Rewrites the paths of all tables of an embedded catalog that lie elsewhere, in the warehouse as it is now.

    Raises `UsageError` for other catalogs, and `ChangelingError` where the files of a table are not in the warehouse.
    """
    warehouse = catalog.pyiceberg["warehouse"]
    if catalog.database is None or "://" in warehouse:
        raise UsageError(
            "a warehouse can be relocated where it is a local folder with the embedded catalog: other catalogs register tables "
            "at their new places themselves (Iceberg's procedures rewrite_table_path and register_table)"
        )
    if not catalog.database.exists():
        return Relocated([])
    found = _places(catalog.database)
    folders = {place: _folder_before(place, warehouse) for place in found}
    before = sorted({folder for folder in folders.values() if folder != warehouse}, key=len, reverse=True)
    if not before:
        return Relocated([])
    move = _Move(before, warehouse)
    rewritten = 0
    tables = {_table_folder(Path(_local(move.path(place))), move) for place in found}
    for folder in sorted(tables):
        rewritten += _rewrite(folder, move)
    reach("relocate.before")
    _update(catalog.database, move)
    return Relocated(before, len(tables), rewritten)


def _places(database: Path) -> list[str]:
    with closing(sqlite3.connect(database, timeout=60)) as connection:
        rows = connection.execute("SELECT metadata_location FROM iceberg_tables WHERE metadata_location IS NOT NULL")
        return [str(place) for (place,) in rows]


def _folder_before(place: str, warehouse: str) -> str:
    """The warehouse in which a metadata file was: the new one has the file by the same path inside of it."""
    path = _local(place)
    if lies_in(path, warehouse):
        return warehouse
    parts = path.split("/")
    for cut in range(1, len(parts)):
        if os.path.isfile(os.path.join(warehouse, *parts[cut:])):
            return "/".join(parts[:cut])
    raise ChangelingError(
        f"{warehouse} does not have the file that the catalog names as {path}: copy the whole warehouse, while no run writes it"
    )


def _table_folder(metadata: Path, move: _Move) -> Path:
    """The location of a table in the new place, whatever its metadata says of it so far."""
    return Path(_local(move.path(json.loads(metadata.read_bytes())["location"])))


def _rewrite(folder: Path, move: _Move) -> int:
    """Rewrites the paths in the files of a table; returns how many changed."""
    steps: tuple[list[Path], ...] = ([], [], [], [])
    for path in sorted(folder.rglob("*")):
        if path.name.startswith("."):
            continue
        match path.suffix:
            case ".puffin":
                steps[_PUFFIN].append(path)
            case ".avro":
                steps[_LISTS if _is_manifest_list(path) else _MANIFESTS].append(path)
            case ".json":
                steps[_JSON].append(path)
    count = 0
    for step, paths in enumerate(steps):
        for path in paths:
            content = path.read_bytes()
            try:
                made = _rewritten(step, content, move)
            except ChangelingError as error:
                raise ChangelingError(f"{path}: {error}") from None
            if made != content:
                _replace(path, made)
                count += 1
                reach("relocate.file")
    return count


def _rewritten(step: int, content: bytes, move: _Move) -> bytes:
    if step == _PUFFIN:
        return deletion_vectors.with_footer(content, move.json)
    if step == _JSON:
        return move.json(content)
    described = _describe_manifest if step == _LISTS else _describe_file
    touched = False

    def change(record: dict[str, Any]) -> None:
        nonlocal touched
        touched |= described(record, move)

    made = avro_files.changed(content, change)
    return made if touched else content


def _is_manifest_list(path: Path) -> bool:
    with open(path, "rb") as file:
        return f'"{_MANIFEST_LIST}"'.encode() in file.read(4096)


def _describe_manifest(record: dict[str, Any], move: _Move) -> bool:
    """Corrects the path and the length of a manifest in a list; returns whether anything was wrong."""
    before = dict(record)
    record["manifest_path"] = move.path(record["manifest_path"])
    with suppress(FileNotFoundError):
        record["manifest_length"] = os.path.getsize(_local(record["manifest_path"]))
    return record != before


def _describe_file(record: dict[str, Any], move: _Move) -> bool:
    """Corrects the paths of a file in a manifest, and the size of one with deletion vectors."""
    file: dict[str, Any] = record["data_file"]
    before = dict(file)
    file["file_path"] = move.path(file["file_path"])
    if "referenced_data_file" in file:
        branch, path = file["referenced_data_file"]
        file["referenced_data_file"] = branch, move.path(path) if isinstance(path, str) else path
    for bounds in ("lower_bounds", "upper_bounds"):
        branch, found = file[bounds]
        file[bounds] = (
            branch,
            found
            and [
                {**bound, "value": move.path(bound["value"].decode()).encode()}
                if bound["key"] == _PATH_FIELD
                else bound
                for bound in found
            ],
        )
    if file.get("content"):
        if not file["file_path"].endswith(".puffin"):
            raise ChangelingError(
                "it has deletes by path in Parquet files, which cannot be relocated: run `changeling maintain` first"
            )
        # A file that is gone belongs to an entry that says so.
        with suppress(FileNotFoundError):
            file["file_size_in_bytes"] = os.path.getsize(_local(file["file_path"]))
    return file != before


def _local(path: str) -> str:
    """A path without the scheme that some writers put in front."""
    return path.removeprefix("file://").removeprefix("file:")


def _replace(path: Path, content: bytes) -> None:
    """Replaces a file at once. Hadoop keeps a checksum next to it, which would not be that of the new one."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    made = path.with_name(f".{path.name}.relocated")
    with open(made, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    made.replace(path)


def _update(database: Path, move: _Move) -> None:
    columns = ("metadata_location", "previous_metadata_location")
    with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        rows = connection.execute(f"SELECT rowid, {', '.join(columns)} FROM iceberg_tables").fetchall()
        for row, *places in rows:
            moved = [None if place is None else move.path(place) for place in places]
            connection.execute(
                f"UPDATE iceberg_tables SET {', '.join(f'{name} = ?' for name in columns)} WHERE rowid = ?",
                (*moved, row),
            )


def _quoted(path: str, depth: int) -> bytes:
    """A path as it is written in a JSON string, inside of that many strings."""
    for _ in range(depth):
        path = json.dumps(path, ensure_ascii=False)[1:-1]
    return path.encode()
