"""DataWorks' row values: JSON has numbers and booleans, CSV has texts, and both spell all else as canonical text."""

import functools

import msgspec

from changeling.formats.type_table import TypeTable
from changeling.model import canonical, json_text
from changeling.model.canonical import Convert
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.types import Type


class RowTypes(TypeTable):
    """A table of a dialect that has no nested values: documents, arrays and intervals are JSON as text."""

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - one table that lives as long as the program
    def reader(self, kind: Type, wire: str | None = None) -> Convert:
        """As in every table, save that the items inside an array's text are canonical JSON."""
        return super().reader(kind, wire) if kind.item is None else canonical.reader(kind)


def document_text(raw: bytes) -> bytes:
    """A JSON value as text."""
    return quote(json_text.compact(raw).decode())


def document(raw: bytes) -> bytes:
    """The JSON value that a text holds; one that is no text stands for itself."""
    if raw[:1] != b'"':
        return raw
    text = json_text.string(raw).encode()
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        raise Rejected(f"not JSON as text: {error}") from None
    return text


NESTED = dict.fromkeys(("json", "array", "interval"), document_text)

TYPES = RowTypes(read={"json": document}, write=NESTED)
