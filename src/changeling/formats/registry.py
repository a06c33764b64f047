"""The registry of formats. A new dialect is one line here."""

import difflib
import functools
import importlib

from changeling.formats.format import Format
from changeling.model.errors import UsageError, nearest

_FOLDERS = {
    "arcion-csv": "arcion_csv",
    "arcion-json": "arcion_json",
    "arcion-native": "arcion_native",
    "dataworks": "dataworks",
    "dataworks-message": "dataworks_message",
    "debezium-json": "debezium_json",
    "transferia": "transferia",
    "xtdb": "xtdb",
    "ydb-debezium": "ydb_debezium",
    "ydb-dynamodb": "ydb_dynamodb",
    "ydb-json": "ydb_json",
}

ALIASES = {"debezium": "debezium-json", "dynamodb": "ydb-dynamodb"}
"""Other names, where only one format can be meant."""


def names() -> list[str]:
    """The names of all formats, sorted."""
    return sorted(_FOLDERS)


@functools.cache
def get(name: str) -> Format:
    """The format of that name or alias; raises `UsageError` with the closest known name."""
    name = ALIASES.get(name, name)
    if name not in _FOLDERS:
        near = difflib.get_close_matches(name, ALIASES, n=1)
        raise UsageError(f"there is no format {name!r}; {nearest(name, [*_FOLDERS, *near])}")
    module = importlib.import_module(f"changeling.formats.{_FOLDERS[name]}")
    found: Format = module.FORMAT
    if found.name != name:
        raise ValueError(f"the folder {_FOLDERS[name]} is registered as {name!r}, but calls itself {found.name!r}")
    return found
