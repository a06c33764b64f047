"""Options as a user writes them, checked against those of a format."""

from collections.abc import Mapping
from typing import Any

from changeling.formats.format import Format
from changeling.formats.options import ReadOptions, WriteOptions, build, parse_drop, shared

_SHARED = ("table", "key", "source", "columns", "schemas")


def read_options(form: Format, options: Mapping[str, Any]) -> ReadOptions:
    """The checked reading options of a format: its own, and those of all formats."""
    own = {name: value for name, value in options.items() if name not in _SHARED}
    common = {name: value for name, value in options.items() if name in _SHARED}
    return build(form.read_options, {**own, **shared(**common)}, f"reading {form.name}")


def write_options(form: Format, options: Mapping[str, Any]) -> WriteOptions:
    """The checked writing options of a format; `drop` may be text, as on the command line."""
    given = dict(options)
    if isinstance(given.get("drop"), str):
        given["drop"] = parse_drop(given["drop"])
    return build(form.write_options, given, f"writing {form.name}")
