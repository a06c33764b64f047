"""The registry of formats. A new dialect is one line here, or an entry point of another package."""

import difflib
import functools
import importlib
from importlib.metadata import EntryPoint, entry_points

from changeling.formats.format import Format
from changeling.model.errors import UsageError, nearest

_MODULES = {
    "arcion-csv": "arcion_csv",
    "arcion-json": "arcion_json",
    "arcion-native": "arcion_native",
    "canal": "canal",
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


GROUP = "changeling.formats"
"""The entry points by which other packages bring formats: a name, and the `Format` of that name."""


@functools.cache
def _foreign() -> dict[str, EntryPoint]:
    return {found.name: found for found in entry_points(group=GROUP) if found.name not in _MODULES}


def foreign() -> list[str]:
    """The names of the formats that other packages bring, sorted."""
    return sorted(_foreign())


def names() -> list[str]:
    """The names of all formats, sorted: Changeling's own, and those of other packages."""
    return sorted((*_MODULES, *_foreign()))


@functools.cache
def get(name: str) -> Format:
    """The format of that name or alias; raises `UsageError` with the closest known name."""
    name = ALIASES.get(name, name)
    if name in _MODULES:
        module = importlib.import_module(f"changeling.formats.{_MODULES[name]}")
        return _checked(module.FORMAT, name, module.__name__)
    if name in _foreign():
        return _checked(_foreign()[name].load(), name, _foreign()[name].value)
    near = difflib.get_close_matches(name, ALIASES, n=1)
    raise UsageError(f"there is no format {name!r}; {nearest(name, [*names(), *near])}")


def _checked(found: object, name: str, where: str) -> Format:
    if not isinstance(found, Format):
        raise UsageError(f"{where} is registered as the format {name!r}, but is not a Format: it is {found!r}")
    if found.name != name:
        raise UsageError(f"{where} is registered as {name!r}, but calls itself {found.name!r}")
    return found
