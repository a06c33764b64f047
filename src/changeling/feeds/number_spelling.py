"""How dialects spell the numbers of a replica where that is not how the replica stores them."""

from decimal import Decimal
from typing import NamedTuple

from changeling.model.canonical import Convert, text_of
from changeling.model.json_text import quote
from changeling.replicas.shape import Shape


class Spelling(NamedTuple):
    """How the values of one column are spelled."""

    write: Convert
    """From the canonical form."""
    type: str | None = None
    """What the dialect takes them for then; None for the type of the column."""


def spellings(form: str, shape: Shape) -> dict[str, Spelling]:
    """The columns of a shape whose numbers a dialect spells in its own way, by id."""
    found = {}
    for column in shape.columns:
        if column.kind.kind != "decimal":
            continue
        if form == "xtdb" and column.id.startswith("+"):
            # No schema declares it: documents had numbers there, whereas they have their decimals as texts.
            found[column.id] = Spelling(_bare, "json")
        elif form in ("ydb-json", "ydb-debezium") and column.kind.precision is None:
            found[column.id] = Spelling(_dynumber, "string")
        elif form.startswith("ydb-"):
            found[column.id] = Spelling(_shortest)
    return found


def _bare(raw: bytes) -> bytes:
    return text_of(raw).encode()


def _shortest(raw: bytes) -> bytes:
    """Without the zeros that only the scale of its column adds, as YDB prints decimals."""
    text = text_of(raw)
    if "." not in text:
        return raw
    return quote(text.rstrip("0").removesuffix("."))


def _dynumber(raw: bytes) -> bytes:
    """`.3321e1`, as YDB prints a DyNumber: all digits behind the point, and the power of ten."""
    sign, digits, exponent = Decimal(text_of(raw)).as_tuple()
    if not isinstance(exponent, int):
        return raw
    text = "".join(map(str, digits)).lstrip("0")
    power = len(text) + exponent
    text = text.rstrip("0")
    return quote(f"{'-' if sign else ''}.{text}e{power}" if text else "0")
