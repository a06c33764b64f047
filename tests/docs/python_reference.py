"""The reference in docs/python.md, made from signatures and docstrings: `python -m tests.docs.python_reference` writes it again."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import changeling
import changeling.spark

_WIDTH = 110
PAGE = Path(__file__).parents[2] / "docs" / "python.md"
START = "<!-- From here on: written by `python -m tests.docs.python_reference`. -->\n"


def reference() -> str:
    """The part of the page below `START`."""
    return "\n".join(_lines()) + "\n"


def page() -> str:
    """The page as it should be."""
    return PAGE.read_text(encoding="utf-8").partition(START)[0] + START + reference()


def _lines() -> Iterator[str]:
    yield "\n## changeling"
    for name in sorted(changeling.__all__):
        yield from _described(getattr(changeling, name), "changeling.")
    yield "\n## changeling.spark"
    for name in sorted(changeling.spark.__all__):
        yield from _described(getattr(changeling.spark, name), "changeling.spark.")


def _described(thing: Any, prefix: str) -> Iterator[str]:
    if not inspect.isclass(thing):
        yield f"\n### `{prefix}{thing.__name__}`\n"
        yield f"```python\n{_signature(thing)}\n```\n"
        yield inspect.cleandoc(thing.__doc__ or "")
        return
    yield f"\n### `{prefix}{thing.__name__}`\n"
    yield inspect.cleandoc(thing.__doc__ or "")
    if fields := getattr(thing, "_fields", None):
        yield f"\nA named tuple of `{'`, `'.join(fields)}`."
        return
    for name, member in inspect.getmembers(thing):
        called = inspect.isfunction(member)
        if name.startswith("_") or not (called or isinstance(member, property)):
            continue
        yield f"\n#### `{thing.__name__}.{name}`\n"
        if called:
            yield f"```python\n{_signature(member)}\n```\n"
        yield inspect.cleandoc(member.__doc__ or "")


def _signature(function: Any) -> str:
    """The signature as the code has it, without `self`."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef)
    parts = list(_parameters(node.args))
    joined = f"{node.name}({', '.join(parts)})"
    if len(joined) > _WIDTH:
        joined = f"{node.name}(\n" + "".join(f"    {part},\n" for part in parts) + ")"
    return f"{joined} -> {_annotation(node.returns)}"


def _parameters(given: ast.arguments) -> Iterator[str]:
    without = [None] * (len(given.args) - len(given.defaults))
    for one, default in zip(given.args, [*without, *given.defaults], strict=True):
        if one.arg != "self":
            yield _parameter(one, default)
    if given.kwonlyargs:
        yield "*"
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _parameter(one, default)
    if given.kwarg is not None:
        yield f"**{_parameter(given.kwarg, None)}"


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    shown = f"{one.arg}: {_annotation(one.annotation)}"
    return shown if default is None else f"{shown} = {ast.unparse(default)}"


def _annotation(given: ast.expr | None) -> str:
    """A type; one in quotes, which is not imported where the code runs, without them."""
    assert given is not None
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ast.unparse(given)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
