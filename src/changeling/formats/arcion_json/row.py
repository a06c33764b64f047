"""The row of a change on its way out: both images as cells, reduced to what the user requested."""

from dataclasses import dataclass
from typing import Literal

from changeling.formats.arcion_json import images
from changeling.formats.format import Outgoing
from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.operation import Image, Operation

_INSERTS = (Operation.INSERT, Operation.READ, Operation.REPLACE)

Cells = dict[str, bytes]


@dataclass
class OutgoingRow:
    """The cells of both images, raw JSON each, and how complete each image is."""

    columns: tuple[str, ...]
    """All columns that the change shows, also those that are left out later."""
    key: Cells
    before: Cells
    after: Cells
    before_image: Image
    after_image: Image

    @staticmethod
    def of(change: Change) -> "OutgoingRow":
        """The row as the change has it."""
        before, after = _members(change.before), _members(change.after)
        columns = tuple(dict.fromkeys([*after, *before]))
        return OutgoingRow(columns, _members(change.key), before, after, change.before_image, change.after_image)

    def choose_after(self, out: Outgoing, wanted: Literal["UPDATED", "ALL"]) -> None:
        """Keeps only what an update changed, if both full rows are known; or requires the full row."""
        op = out.change.op
        if wanted == "ALL":
            if op is not Operation.DELETE and self.after_image is not Image.FULL:
                out.lose("after", "the full row after the change was requested, and this change does not have it")
            return
        if op in _INSERTS or not self.before_image is self.after_image is Image.FULL:
            return
        changed = {name: value for name, value in self.after.items() if self.before.get(name, b"null") != value}
        gone = {name: b"null" for name, value in self.before.items() if name not in self.after and value != b"null"}
        self.after, self.after_image = {**changed, **gone}, Image.PARTIAL

    def choose_before(self, out: Outgoing, wanted: Literal["KEY", "ALL"]) -> None:
        """Keeps only the key before the change; or requires the full row."""
        if out.change.op in _INSERTS and self.before_image is Image.NONE:
            return
        if wanted == "ALL":
            if self.before_image is not Image.FULL:
                out.lose("before", "the full row before the change was requested, and this change does not have it")
        elif self.key:
            self.before = {name: self.before.get(name, value) for name, value in self.key.items()}
            self.before_image = Image.KEY

    def show_key(self, deletes: bool) -> None:
        """Adds key columns that no image shows, as those of a dialect that keeps the key separately."""
        missing = {
            name: value
            for name, value in self.key.items()
            if (deletes or name not in self.after) and self.before.get(name) != value
        }
        if not missing:
            return
        in_after = not deletes and self.after_image is not Image.NONE
        unknown_before = {name: value for name, value in missing.items() if name not in self.before}
        if in_after:
            self.after = {**missing, **self.after}
        if not in_after or self.before_image is not Image.NONE:
            self.before = {**unknown_before, **self.before}

    def shown_key(self) -> Cells:
        """The key as a reader finds it in the cells, which knows the names of its columns."""
        return {name: self.after.get(name, self.before.get(name, b"")) for name in self.key}

    def seen_before(self, columns: list[str]) -> Image:
        """How complete the before image looks to a reader who knows the key."""
        return images.before_image(self.before, columns, self.key)

    def seen_after(self, columns: list[str]) -> Image:
        """How complete the after image looks to a reader."""
        return images.after_image(self.after, columns)


def _members(text: str | bytes | None) -> Cells:
    return {} if text is None else json_text.members(text)
