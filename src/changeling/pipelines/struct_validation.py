"""Validates plain data against the Structs of a pipeline, and finds all that does not match, with readable messages.

msgspec validates the same, but does not report the names of mapping members, and suggests no similar names.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import inspect

from changeling.model.errors import nearest
from changeling.pipelines.yaml_text import Path, PipelineFileError


def problems(value: Any, kind: inspect.Type, path: Path = ()) -> Iterator[PipelineFileError]:
    """The values that do not match their types."""
    meaning = None
    if isinstance(kind, inspect.Metadata):
        meaning = (kind.extra_json_schema or {}).get("description")
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        yield from _of_union(value, kind, path)
    elif isinstance(kind, inspect.StructType):
        yield from _of_struct(value, [kind], path)
    elif isinstance(kind, inspect.DictType):
        if not isinstance(value, dict):
            yield PipelineFileError(f"must be a mapping, not {_named(value)}", path)
            return
        for name, item in value.items():
            yield from problems(item, kind.value_type, (*path, name))
    elif isinstance(kind, inspect.VarTupleType):
        yield from _of_list(value, kind, path)
    elif isinstance(kind, inspect.LiteralType):
        if not isinstance(value, str):
            yield _not_text(value, path)
        elif value not in kind.values:
            yield PipelineFileError(f"there is no {path[-1]} {value!r}; {nearest(value, map(str, kind.values))}", path)
    elif isinstance(kind, inspect.IntType):
        yield from _of_number(value, kind, path)
    elif isinstance(kind, inspect.StrType):
        yield from _of_text(value, kind, meaning, path)
    elif isinstance(kind, inspect.BoolType):
        if not isinstance(value, bool):
            yield PipelineFileError(f"must be true or false, not {_named(value)}", path)
    else:
        raise TypeError(f"a pipeline has no values of type {kind}")


def _of_union(value: Any, kind: inspect.UnionType, path: Path) -> Iterator[PipelineFileError]:
    if any(isinstance(one, inspect.NoneType) for one in kind.types) and value is None:
        return
    types = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
    structs = [one for one in types if isinstance(one, inspect.StructType)]
    if structs:
        yield from _of_struct(value, structs, path)
    elif len(types) == 1:
        yield from problems(value, types[0], path)
    elif not isinstance(value, str | int | float):
        yield PipelineFileError(f"must be text, a number, true or false, not {_named(value)}", path)


def _of_struct(value: Any, kinds: Sequence[inspect.StructType], path: Path) -> Iterator[PipelineFileError]:
    """The value must be one of several Structs, which its tag identifies."""
    if not isinstance(value, dict):
        yield PipelineFileError(f"must be a mapping, not {_named(value)}", path)
        return
    kind, tag = kinds[0], kinds[0].tag_field
    if tag is not None:
        tags = {str(one.tag): one for one in kinds}
        if tag not in value:
            yield PipelineFileError(f"{tag} is missing; known: {', '.join(sorted(tags))}", path)
            return
        if not isinstance(value[tag], str):
            yield _not_text(value[tag], (*path, tag))
            return
        if value[tag] not in tags:
            yield PipelineFileError(f"there is no {tag} {value[tag]!r}; {nearest(value[tag], tags)}", (*path, tag))
            return
        kind = tags[value[tag]]
    yield from _of_members(value, kind, path)


def _of_members(value: dict[str, Any], kind: inspect.StructType, path: Path) -> Iterator[PipelineFileError]:
    fields = {field.encode_name: field for field in kind.fields}
    names = [*fields, *([] if kind.tag_field is None else [kind.tag_field])]
    unknown = [name for name in value if name not in names]
    for name in unknown:
        yield PipelineFileError(f"there is no such setting; {nearest(name, names)}", (*path, name))
    missing = [name for name, field in fields.items() if field.required and name not in value]
    # What is missing has probably another name there.
    if missing and not unknown:
        yield PipelineFileError(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing", path)
    for name, field in fields.items():
        if name in value:
            yield from problems(value[name], field.type, (*path, name))


def _of_list(value: Any, kind: inspect.VarTupleType, path: Path) -> Iterator[PipelineFileError]:
    if not isinstance(value, list):
        hint = f": write [{value}]" if isinstance(value, str) and isinstance(kind.item_type, inspect.StrType) else ""
        yield PipelineFileError(f"must be a list, not {_named(value)}{hint}", path)
        return
    if len(value) < (kind.min_length or 0):
        yield PipelineFileError("must not be empty", path)
    for place, item in enumerate(value):
        yield from problems(item, kind.item_type, (*path, place))


def _of_number(value: Any, kind: inspect.IntType, path: Path) -> Iterator[PipelineFileError]:
    if not isinstance(value, int) or isinstance(value, bool):
        yield PipelineFileError(f"must be a whole number, not {_named(value)}", path)
    elif kind.ge is not None and value < kind.ge:
        yield PipelineFileError(f"must be at least {kind.ge}", path)
    elif kind.le is not None and value > kind.le:
        yield PipelineFileError(f"must be at most {kind.le}", path)


def _of_text(value: Any, kind: inspect.StrType, meaning: str | None, path: Path) -> Iterator[PipelineFileError]:
    if kind.pattern is not None and not (isinstance(value, str) and re.fullmatch(kind.pattern, value)):
        yield PipelineFileError(f"must be {meaning}", path)
    elif not isinstance(value, str):
        yield _not_text(value, path)
    elif len(value) < (kind.min_length or 0):
        yield PipelineFileError("must not be empty", path)


def _not_text(value: Any, path: Path) -> PipelineFileError:
    quote = "; put it in quotes" if isinstance(value, int) else ""
    return PipelineFileError(f"must be text, not {_named(value)}{quote}", path)


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
