"""Validates plain data against the Structs of a pipeline, with readable messages.

msgspec validates the same, but does not report the names of mapping members, and suggests no similar names.
"""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import inspect

from changeling.model.errors import nearest
from changeling.pipelines.yaml_text import Path, PipelineFileError


def check(value: Any, kind: inspect.Type, path: Path = ()) -> None:
    """Raises `PipelineFileError` at the first value that does not match its type."""
    meaning = None
    if isinstance(kind, inspect.Metadata):
        meaning = (kind.extra_json_schema or {}).get("description")
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        _check_union(value, kind, path)
    elif isinstance(kind, inspect.StructType):
        _check_struct(value, [kind], path)
    elif isinstance(kind, inspect.DictType):
        if not isinstance(value, dict):
            raise PipelineFileError(f"must be a mapping, not {_named(value)}", path)
        for name, item in value.items():
            check(item, kind.value_type, (*path, name))
    elif isinstance(kind, inspect.VarTupleType):
        _check_list(value, kind, path)
    elif isinstance(kind, inspect.LiteralType):
        if value not in kind.values:
            _refuse_unless_text(value, path)
            raise PipelineFileError(f"there is no {path[-1]} {value!r}; {nearest(value, map(str, kind.values))}", path)
    elif isinstance(kind, inspect.IntType):
        _check_number(value, kind, path)
    elif isinstance(kind, inspect.StrType):
        _check_text(value, kind, meaning, path)
    elif isinstance(kind, inspect.BoolType):
        if not isinstance(value, bool):
            raise PipelineFileError(f"must be true or false, not {_named(value)}", path)
    else:
        raise TypeError(f"a pipeline has no values of type {kind}")


def _check_union(value: Any, kind: inspect.UnionType, path: Path) -> None:
    if any(isinstance(one, inspect.NoneType) for one in kind.types) and value is None:
        return
    types = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
    structs = [one for one in types if isinstance(one, inspect.StructType)]
    if structs:
        _check_struct(value, structs, path)
    elif len(types) == 1:
        check(value, types[0], path)
    elif not isinstance(value, str | int | float):
        raise PipelineFileError(f"must be text, a number, true or false, not {_named(value)}", path)


def _check_struct(value: Any, kinds: Sequence[inspect.StructType], path: Path) -> None:
    """The value must be one of several Structs, which its tag identifies."""
    if not isinstance(value, dict):
        raise PipelineFileError(f"must be a mapping, not {_named(value)}", path)
    kind, tag = kinds[0], kinds[0].tag_field
    if tag is not None:
        tags = {str(one.tag): one for one in kinds}
        if tag not in value:
            raise PipelineFileError(f"{tag} is missing; known: {', '.join(sorted(tags))}", path)
        _refuse_unless_text(value[tag], (*path, tag))
        if value[tag] not in tags:
            raise PipelineFileError(f"there is no {tag} {value[tag]!r}; {nearest(value[tag], tags)}", (*path, tag))
        kind = tags[value[tag]]
    fields = {field.encode_name: field for field in kind.fields}
    names = [*fields, *([] if tag is None else [tag])]
    for name in value:
        if name not in names:
            raise PipelineFileError(f"there is no such setting; {nearest(name, names)}", (*path, name))
    missing = [name for name, field in fields.items() if field.required and name not in value]
    if missing:
        raise PipelineFileError(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing", path)
    for name, field in fields.items():
        if name in value:
            check(value[name], field.type, (*path, name))


def _check_list(value: Any, kind: inspect.VarTupleType, path: Path) -> None:
    if not isinstance(value, list):
        hint = f": write [{value}]" if isinstance(value, str) and isinstance(kind.item_type, inspect.StrType) else ""
        raise PipelineFileError(f"must be a list, not {_named(value)}{hint}", path)
    if len(value) < (kind.min_length or 0):
        raise PipelineFileError("must not be empty", path)
    for place, item in enumerate(value):
        check(item, kind.item_type, (*path, place))


def _check_number(value: Any, kind: inspect.IntType, path: Path) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise PipelineFileError(f"must be a whole number, not {_named(value)}", path)
    if kind.ge is not None and value < kind.ge:
        raise PipelineFileError(f"must be at least {kind.ge}", path)


def _check_text(value: Any, kind: inspect.StrType, meaning: str | None, path: Path) -> None:
    if kind.pattern is not None and not (isinstance(value, str) and re.fullmatch(kind.pattern, value)):
        raise PipelineFileError(f"must be {meaning}", path)
    _refuse_unless_text(value, path)
    if len(value) < (kind.min_length or 0):
        raise PipelineFileError("must not be empty", path)


def _refuse_unless_text(value: Any, path: Path) -> None:
    if not isinstance(value, str):
        quote = "; put it in quotes" if isinstance(value, int) else ""
        raise PipelineFileError(f"must be text, not {_named(value)}{quote}", path)


def _named(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"the number {value}"
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else "text"
