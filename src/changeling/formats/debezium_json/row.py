"""The images and the key of one event, on their way into its change."""

from typing import NamedTuple

import msgspec

from changeling.envelope.cells import Cell, Cells
from changeling.envelope.one import ONE
from changeling.formats.debezium_json import images, mongodb
from changeling.formats.debezium_json.envelope import DOCUMENTS, MONGODB, OLD_KEY, XTDB, YDB, Placeholder, Source
from changeling.formats.debezium_json.message import Headers, Members, Message, key_columns, members, names_of
from changeling.model import json_text
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation


class Row(NamedTuple):
    """The key and the images of a row."""

    key: Cell = None
    before: Cell = None
    after: Cell = None
    before_image: Cell = Image.NONE
    after_image: Cell = Image.NONE
    note: Cell = b""
    """What `meta` must keep of the images, each member with a comma in front."""


def row_key(cells: Cells, row: Cell, columns: Cell, names: tuple[str, ...]) -> Cell:
    """The key of a relational row: from the columns of the message key, else from those that the user named."""
    if columns is not None:
        return cells.key_in_row(columns, row)
    if not names:
        return None
    found = cells.columns(cells.first(row, b"{}"), names)
    if not cells.only(cells.all_present(found.values())):
        missing = ", ".join(name for name, value in found.items() if value is None)
        raise Rejected(f"no message key, and the row lacks the key columns {missing}")
    return cells.key(found)


def _old_key(headers: Headers) -> bytes:
    """The note of the key that a row had, where a header names it: values that the event lacks are those of that row."""
    columns, _ = key_columns(ONE, dict(headers).get(OLD_KEY))
    return b"" if columns in (None, b"{}") else b',"old_key":%b' % ONE.key_in_row(columns, None)


class OddRow:
    """A row whose images are text, lack columns, or are in other members."""

    def __init__(self, message: Message, source: Source, op: Operation, key: bytes | None) -> None:
        self._envelope: dict[str, bytes] = message.envelope or {}
        self._op, self._connector = op, (source.connector or "").lower()
        self._key, self._message_key, self._headers = key, message.key, message.headers
        self._note = b""

    def read(self, placeholder: Placeholder, key_names: tuple[str, ...]) -> Row:
        """The row as its change has it."""
        before, after = self._image("before"), self._image("after")
        image = Image.NONE if after is None else Image.FULL
        if self._op is Operation.DELETE:
            if after is not None and members(after):
                raise Rejected("op 'd' with a row in `after`")
            after = None
        elif after is None:
            after, image = self._after_from_elsewhere()
        own_before, own_after = (
            self._available("before", before, placeholder),
            self._available("after", after, placeholder),
        )
        if own_after is not after:
            image = Image.PARTIAL
        key = self._find_key(own_before if self._op is Operation.DELETE else own_after, own_before, key_names)
        if self._op is Operation.INSERT and image is Image.PARTIAL:
            self._note += _old_key(self._headers)
        own_image = Image.PARTIAL if own_before is not before else self._before_image(before, after, key)
        return Row(key, own_before, own_after, own_image, image, self._note)

    def _image(self, side: str) -> bytes | None:
        raw = self._envelope.get(side, b"null")
        if raw == b"null":
            return None
        if raw[:1] == b'"':
            self._note += b',"text_%b":true' % side.encode()
            raw = json_text.string(raw).encode()
        try:
            empty = not names_of(raw)
        except msgspec.DecodeError:
            raise Rejected(f"`{side}` must be an object, or one as text") from None
        # Arcion writes {} for a missing row.
        return None if side == "before" and empty else raw

    def _after_from_elsewhere(self) -> tuple[bytes | None, Image]:
        """The row after a write that has no `after`: a MongoDB update has it in another member, YDB may have only the key."""
        if self._op is Operation.UPDATE and self._connector == MONGODB:
            self._note += b',"derived":true'
            return mongodb.update_image(self._envelope)
        if self._op is not Operation.UPDATE or self._connector != YDB:
            advice = "; a scan of YDB's OLD_IMAGE mode is read with ydb-debezium" if self._connector == YDB else ""
            raise Rejected(f"op {json_text.string(self._envelope['op'])!r} without a row in `after`{advice}")
        return None, Image.NONE

    def _available(self, side: str, image: bytes | None, placeholder: Placeholder) -> bytes | None:
        if image is None:
            return None
        kept, places = images.without_unavailable(image, placeholder)
        if places is None:
            return image
        self._note += b',"unavailable_%b":%b' % (side.encode(), places)
        return kept

    def _find_key(self, row: bytes | None, before: bytes | None, names: tuple[str, ...]) -> bytes | None:
        if self._connector == XTDB and not names:
            return self._document_id(members(row or b"{}"))
        if self._connector == MONGODB:
            found = mongodb.key_of(None if self._key is None else members(self._key), row)
            if found is not None:
                return found
        if self._key is None and row is None:
            row = before
        key: bytes | None = row_key(ONE, row, self._key, names)
        return key

    def _document_id(self, columns: Members) -> bytes:
        raw = columns.get("_id", columns.get("xt/id"))
        if raw is None:
            if self._message_key is None:
                raise Rejected("no record id: neither `_id` nor `xt/id` in the document, and no message key")
            raw = quote(self._message_key.decode())
        return json_text.canonical_key([("_id", raw)])

    def _before_image(self, before: bytes | None, after: bytes | None, key: bytes | None) -> Image:
        if before is None:
            return Image.NONE
        if self._connector in DOCUMENTS:
            # Documents have no fixed columns: one with fewer of them is still full.
            return Image.KEY if self._op is Operation.DELETE and before == key else Image.FULL
        image: Image = ONE.by_names(images.before_image, before, after, key)
        return image
