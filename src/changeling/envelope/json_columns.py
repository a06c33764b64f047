"""JSON of many records or changes taken apart by columns."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.cells import Absent, Cell, Condition, Members, Part, as_bytes, template
from changeling.envelope.columns import Distinct, Structs
from changeling.envelope.flat_objects import FlatObjects, Path, flat_objects
from changeling.envelope.objects import in_order
from changeling.envelope.parts import Parts
from changeling.envelope.shapes import Names, Shape, decoded, first_mismatches, items
from changeling.envelope.text_columns import as_mask, first_bytes
from changeling.model import json_text

_SOLE = r'^\{"[^"\\]*":(?P<value>"[^"\\]*"|[^",{\[]+)\}$'
_NATURAL = "^(?:0|[1-9][0-9]{0,18})$"
_SIMILAR = 8
"""How many records of a group must have the same text for it to be worth a template."""
_texts = msgspec.json.Decoder(str | None)


class JsonColumns(Parts):
    """What takes JSON apart; a group continues with the records whose JSON is as that of the first one."""

    def __init__(self, count: int, templates: bool = False) -> None:
        super().__init__(count)
        self._templates = templates
        self._flat: dict[int, tuple[Cell, FlatObjects, Path]] = {}
        """What was cut apart already, by the identity of its column, which is kept."""

    def envelope(self, text: Cell) -> Members:
        found = flat_objects(self._objects(text))
        return self.members(text) if found is None else self._flat_members(found, ())

    def _flat_members(self, flat: FlatObjects, path: Path) -> Members:
        found = flat.members(path)
        self._flat |= {id(cell): (cell, flat, (*path, name)) for name, cell in found.items()}
        return found

    def members(self, text: Cell, name: str = "", optional: Names = (), usual: Names = ()) -> Members:
        if id(text) in self._flat and not optional:
            _, flat, path = self._flat[id(text)]
            if flat.is_object(path):
                return self._flat_members(flat, path)
        given = self._objects(text)
        shape = self._shape(given)
        return dict((shape.with_optional(optional, usual) if optional else shape).members(given))

    def names(self, text: Cell) -> tuple[str, ...]:
        return self._shape(self._objects(text)).names

    def _objects(self, text: Cell) -> pa.Array:
        self.usually(self.present(text))
        return self.array(text, pa.binary())

    def _shape(self, texts: pa.Array) -> Shape:
        found = Shape.of(texts[0].as_py())
        if found is None:
            raise first_mismatches(self.count)
        return found

    def items(self, text: Cell, count: int, wrong: Callable[[int], str]) -> list[Cell]:
        self.check()
        return list(items(self.array(text, pa.binary()), count))

    def struct(self, part: Part, text: Cell) -> Any:
        if text is None:
            return Absent()
        self.check()
        if id(text) in self._flat:
            _, flat, path = self._flat[id(text)]
            if (known := flat.struct(part, path)) is not None:
                return known
        text = self.array(text, pa.binary())
        if not text.null_count and not part.nullable:
            return Structs(part.fields, decoded(text, part.decoder))
        found = decoded(pc.fill_null(text, b"null"), part.decoder_or_none)
        if not part.nullable:
            self._check_nulls(text, found)
        return Structs(part.fields, found)

    def _check_nulls(self, texts: pa.Array, found: Sequence[Any]) -> None:
        """Only what is missing is nothing: the JSON value `null` is another thing."""
        if found.count(None) > texts.null_count:
            there = np.fromiter((one is not None for one in found), np.bool_, len(found))
            self.usually(there | as_mask(pc.is_null(texts)))

    def text(self, raw: Cell) -> Cell:
        if raw is None:
            return None
        self.check()
        found = decoded(pc.fill_null(raw, b"null") if raw.null_count else raw, _texts)
        self._check_nulls(raw, found)
        return pa.array(found, pa.string())

    def document(self, members: Mapping[str, Cell], side: str) -> Cell:
        given = members.get(side)
        if given is None:
            return None
        if id(given) in self._flat:
            _, flat, path = self._flat[id(given)]
            if (text := flat.text(path)) is not None:
                self.usually(~self.present(text) | self.starts(text, b"{"))
                return text
        raw = self.array(given, pa.binary())
        missing = self.equal(raw, b"null") | ~self.present(raw)
        if missing.all():
            return None
        head = first_bytes(raw)[~missing][0]
        self.usually(missing | (first_bytes(raw) == head))
        if head == ord('"'):
            found = pa.array(decoded(pc.fill_null(raw, b"null") if raw.null_count else raw, _texts), pa.string())
            self.usually(~self.present(found) | self.starts(found, b"{"))
            return found
        self.usually(missing | (first_bytes(raw) == ord("{")))
        return self.where(missing, None, raw)

    def object_meta(self, name: str, text: Cell, known: Mapping[str, tuple[str, Cell]]) -> Cell:
        if self._templates:
            members = self.members(text)
            left_out = {
                member: origin
                for member, (origin, value) in known.items()
                if member in members and self.equal(members[member], value).all()
            }
            rest = {member: value for member, value in members.items() if member not in left_out}
            values, places = self._distinct(list(rest.values()) or [b""])
            first = {member: as_bytes(self.array(value)[0].as_py()) for member, value in members.items()}
            is_compact = json_text.join(first.items()) == self.array(text)[0].as_py()
            if left_out and is_compact and _SIMILAR * len(values) <= self.count:
                texts = [template(name, members, dict(zip(rest, row, strict=False)), left_out) for row in values]
                return Distinct(texts, places)
        return self.joined(b"{" + json_text.head(name), text, b"}")

    def ordered(self, text: Cell, names: tuple[str, ...]) -> Condition:
        if text is None:
            return np.zeros(self.count, np.bool_)
        if id(text) in self._flat:
            _, flat, path = self._flat[id(text)]
            return np.full(self.count, flat.is_object(path) and flat.has_only(path, names))
        return as_mask(pc.match_substring_regex(self.array(text, pa.binary()), in_order(names)))
