"""The texts below the members of a class, for people who set them: Python keeps none at run time."""

import ast
import functools
import inspect
import itertools
import textwrap


@functools.cache
def member_notes(kind: type) -> dict[str, str]:
    """By member, those of its bases included; a class whose source is not at hand has none."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        found |= _own_notes(base)
    return found


def _own_notes(kind: type) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}
    (parsed,) = ast.parse(source).body
    body = parsed.body if isinstance(parsed, ast.ClassDef) else []
    return {
        member.target.id: " ".join(str(ast.literal_eval(below.value)).split())
        for member, below in itertools.pairwise(body)
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name) and isinstance(below, ast.Expr)
    }
