"""Keys and images on the wire and in a change: the same text, except that NULL is `null` in a change."""

from collections.abc import Mapping

import msgspec

from changeling.envelope.cells import Cell, Cells, Members
from changeling.formats.ydb_dynamodb import attributes
from changeling.model import json_text
from changeling.model.errors import Rejected

_TEXT, _DIGITS = r'"[^"\\\x00-\x1f]*"', "-?(?:0|[1-9][0-9]*)"
_FLAT = rf'"(?:[SB]":{_TEXT}|N":"{_DIGITS}(?:\.[0-9]+)?"|BOOL":(?:true|false))'


def _nested(value: str) -> str:
    """A value of plain ones, or a list or a document of such."""
    return rf'{{(?:{_FLAT}|"L":\[(?:{value}(?:,{value})*)?\]|"M":{{(?:{_TEXT}:{value}(?:,{_TEXT}:{value})*)?}})}}'


_VALUE = _nested(_nested("{" + _FLAT + "}"))
_PAIR = rf'{_TEXT}:(?:{_VALUE}|{{"NULL":true}})'
_PLAIN_IMAGE = rf"{{(?:{_PAIR}(?:,{_PAIR})*)?}}"
"""An image of plain values, not nested deep: nothing in it can be wrong, so it need not be parsed."""
_KEY_PAIR = rf'{_TEXT}:{{"(?:[SB]":{_TEXT}|N":"(?:0|-?[1-9][0-9]*)(?:\.[0-9]*[1-9])?")}}'
_PLAIN_KEY = rf"{{{_KEY_PAIR}(?:,{_KEY_PAIR})*}}"
_NULL = attributes.NULL.decode()


def read_image(cells: Cells, name: str, raw: Cell) -> Cell:
    """An image as a change has it: the wire's text, except that `{"NULL":true}` is `null`; None where there is none."""
    if raw is None or cells.only(cells.matches(raw, _PLAIN_IMAGE) | ~cells.present(raw)):
        return cells.changed(raw, attributes.NULL, _with_nulls)
    try:
        values = attributes.read_columns(raw)
        for value in values.values():
            attributes.check(value)
    except (Rejected, msgspec.DecodeError):
        raise _wrong(name, raw) from None
    nulls = [column for column, value in values.items() if value.NULL is True]
    return json_text.join({**json_text.members(raw), **dict.fromkeys(nulls, b"null")}.items()) if nulls else raw


def _with_nulls(image: str | bytes) -> str:
    """A plain image; no text in it contains quotes, so that these can only be values."""
    return (image if isinstance(image, str) else image.decode()).replace(_NULL, "null")


def _wrong(name: str, raw: bytes) -> Rejected:
    """Why an image cannot be read, with the column that is wrong."""
    for column, value in _columns(name, raw).items():
        try:
            attributes.check(attributes.read(value))
        except (Rejected, msgspec.DecodeError) as error:
            return Rejected(f"`{name}`: column {column!r}: {error}")
    return Rejected(f"`{name}` is not an object of attribute values")


def read_key(cells: Cells, raw: Cell) -> Cell:
    """`Keys` in the canonical spelling; raises `Rejected` naming the column that cannot be part of a key."""
    if cells.only(cells.matches(raw, _PLAIN_KEY)):
        names = cells.names(raw)
        if names == tuple(sorted(names)):
            return raw
    cells.alone()
    columns = _columns("Keys", raw)
    if not columns:
        raise Rejected("`Keys` names no column")
    return canonical_key(columns)


def canonical_key(columns: Mapping[str, bytes]) -> bytes:
    """The canonical object of key columns; raises `Rejected` naming the one that cannot be part of a key."""
    pairs = []
    for column, value in columns.items():
        try:
            pairs.append((column, attributes.canonical(value)))
        except (Rejected, msgspec.DecodeError) as error:
            raise Rejected(f"key column {column!r}: {error}") from None
    return json_text.join(sorted(pairs))


def _columns(name: str, raw: bytes) -> dict[str, bytes]:
    try:
        return json_text.members(raw)
    except msgspec.DecodeError as error:
        raise Rejected(f"`{name}`: {error}") from None


def print_image(cells: Cells, image: Cell, omit_nulls: bool) -> Cell:
    """An image as the wire has it: NULL as `{"NULL":true}`, or left out."""
    if image is None or cells.only(~cells.contains(image, [b"null"])):
        return image
    return print_columns(cells, json_text.members(image), omit_nulls)


def print_columns(cells: Cells, columns: Members, omit_nulls: bool) -> Cell:
    """The image of these columns, each an attribute value or `null`."""
    if not omit_nulls:
        return cells.shell(
            {name: cells.where(cells.equal(value, b"null"), attributes.NULL, value) for name, value in columns.items()}
        )
    cells.alone()
    return cells.shell({name: value for name, value in columns.items() if value not in (b"null", attributes.NULL)})
