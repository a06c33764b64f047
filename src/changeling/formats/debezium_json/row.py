"""The images and the key of one event, on their way into its change."""

import msgspec

from changeling.formats.debezium_json import images, mongodb
from changeling.formats.debezium_json.envelope import (
    DOCUMENTS,
    LETTERS,
    MONGODB,
    OLD_KEY,
    XTDB,
    YDB,
    Marks,
    Placeholder,
)
from changeling.formats.debezium_json.message import Headers, Members, Message, key_columns, members, names_of
from changeling.formats.key_in_row import check_key
from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation

TAKEN = {
    (False, False): (),
    (True, False): ("before",),
    (False, True): ("after",),
    (True, True): ("before", "after"),
}
"""The images of a change, by whether it has each."""


def plain_row(
    change: Change, envelope: Members, key: Members | None, key_names: tuple[str, ...], placeholder: Placeholder
) -> bool:
    """Fills the change of a relational row; False, and nothing done, if its images are not plain objects or null."""
    before, after = envelope.get("before", b"null"), envelope.get("after", b"null")
    deleted = change.op is Operation.DELETE
    if after[:1] != (b"n" if deleted else b"{") or before[:2] == b"{}" or before[:1] not in b"{n":
        return False
    if placeholder.may_be_in(after) or placeholder.may_be_in(before):
        return False
    if not deleted:
        change.after, change.after_image = after, Image.FULL
    if before != b"null":
        change.before = before
    find_key(change, key, key_names)
    if change.before is not None:
        change.before_image = images.before_image(
            names_of(before), None if deleted else names_of(after), None if change.key is None else names_of(change.key)
        )
    return True


def find_key(change: Change, key: Members | None, names: tuple[str, ...]) -> None:
    """The key of a relational row: from the message key, else from the columns that the user named."""
    if key is None:
        if not names:
            return
        row = change.before if change.op is Operation.DELETE or change.after is None else change.after
        columns = members(row or b"{}")
        if missing := [name for name in names if name not in columns]:
            raise Rejected(f"no message key, and the row lacks the key columns {', '.join(missing)}")
        key = {name: columns[name] for name in names}
    elif (row := change.before if change.op is Operation.DELETE else change.after) is not None:
        check_key(key, row if isinstance(row, bytes) else row.encode())
    if len(key) == 1:
        name, value = next(iter(key.items()))
        change.key = b"{%b:%b}" % (quote(name), json_text.canonical(value))
    else:
        change.key = json_text.canonical_key(key.items())


def mark(change: Change, marks: Marks | None) -> None:
    """What our own records say beyond Debezium's envelope."""
    if marks is None:
        return
    if marks.op is not None:
        if LETTERS.get(marks.op) != LETTERS[change.op]:
            raise Rejected(f"source.changeling says {marks.op}, which is not written as op {LETTERS[change.op]!r}")
        change.op = marks.op
    if change.before is not None:
        change.before_image = marks.before_image or change.before_image
    if change.after is not None:
        change.after_image = marks.after_image or change.after_image


def _old_key(headers: Headers) -> bytes:
    """The note of the key that a row had, where a header names it: values that the event lacks are those of that row."""
    columns, _ = key_columns(dict(headers).get(OLD_KEY))
    return b"" if not columns else b',"old_key":%b' % json_text.canonical_key(columns.items())


class OddRow:
    """A row whose images are text, lack columns, or are in other members."""

    def __init__(
        self, change: Change, envelope: Members, connector: str, key: Members | None, message: Message
    ) -> None:
        self._change, self._envelope, self._connector = change, envelope, connector
        self._key, self._message_key, self._headers = key, message.key, message.headers
        self._note = b""

    def read(self, placeholder: Placeholder, key_names: tuple[str, ...]) -> bytes:
        """Fills the change, and returns what `meta` must keep of the images, each member with a comma in front."""
        change = self._change
        before, after = self._image("before"), self._image("after")
        if change.op is Operation.DELETE:
            if after is not None and members(after):
                raise Rejected("op 'd' with a row in `after`")
            after = None
        elif after is None:
            after = self._after_from_elsewhere()
        else:
            change.after_image = Image.FULL
        change.before, change.after = self._available("before", before, placeholder), after
        if after is not None:
            change.after = self._available("after", after, placeholder)
            if change.after is not after:
                change.after_image = Image.PARTIAL
        self._find_key(key_names)
        if change.op is Operation.INSERT and change.after_image is Image.PARTIAL:
            self._note += _old_key(self._headers)
        if before is not None:
            change.before_image = self._before_image(before, after)
        return self._note

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

    def _after_from_elsewhere(self) -> bytes | None:
        """The row after a write that has no `after`: a MongoDB update has it in another member, YDB may have only the key."""
        change = self._change
        if change.op is Operation.UPDATE and self._connector == MONGODB:
            after, change.after_image = mongodb.update_image(self._envelope)
            self._note += b',"derived":true'
            return after
        if change.op is not Operation.UPDATE or self._connector != YDB:
            advice = "; a scan of YDB's OLD_IMAGE mode is read with ydb-debezium" if self._connector == YDB else ""
            raise Rejected(f"op {json_text.string(self._envelope['op'])!r} without a row in `after`{advice}")
        return None

    def _available(self, side: str, image: bytes | None, placeholder: Placeholder) -> bytes | None:
        if image is None:
            return None
        kept, places = images.without_unavailable(image, placeholder)
        if places is None:
            return image
        self._note += b',"unavailable_%b":%b' % (side.encode(), places)
        return kept

    def _find_key(self, names: tuple[str, ...]) -> None:
        change = self._change
        row = change.before if change.op is Operation.DELETE else change.after
        if self._connector == XTDB and not names:
            change.key = self._document_id(members(row or b"{}"))
        elif self._connector == MONGODB and (found := mongodb.key_of(self._key, row)) is not None:
            change.key = found
        else:
            find_key(change, self._key, names)

    def _document_id(self, columns: Members) -> bytes:
        raw = columns.get("_id", columns.get("xt/id"))
        if raw is None:
            if self._message_key is None:
                raise Rejected("no record id: neither `_id` nor `xt/id` in the document, and no message key")
            raw = quote(self._message_key.decode())
        return json_text.canonical_key([("_id", raw)])

    def _before_image(self, before: bytes, after: bytes | None) -> Image:
        change = self._change
        if change.before is not before:
            return Image.PARTIAL
        if self._connector in DOCUMENTS:
            # Documents have no fixed columns: one with fewer of them is still full.
            return Image.KEY if change.op is Operation.DELETE and before == change.key else Image.FULL
        columns = None if after is None else names_of(after)
        return images.before_image(names_of(before), columns, None if change.key is None else names_of(change.key))
