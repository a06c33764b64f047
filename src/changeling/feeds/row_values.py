"""The values of rows as a replica holds them, read from the images of changes, many at once, and what their keys are hashed to."""

from collections.abc import Mapping, Sequence
from hashlib import md5
from typing import NamedTuple

import msgspec

from changeling.model import canonical, json_text
from changeling.model.canonical import Convert, text_of
from changeling.model.types import Type
from changeling.replicas.json_output import json_column
from changeling.replicas.keys import Reader, reader_of, same
from changeling.replicas.shape import Columns, ReplicaColumn, Shape
from changeling.replicas.value_kinds import undeclared
from changeling.replicas.values import Reasons, column

Row = Mapping[str, bytes]
"""The values of a row that are not NULL, by the id of their column: canonical JSON, as the column holds them."""
_OBJECTS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_ARRAYS = msgspec.json.Decoder(list[list[msgspec.Raw]])


class ReadRow(NamedTuple):
    """The values of an image and of its key, NULLs among them."""

    values: dict[str, bytes]
    is_whole: bool
    """All values of the image fit their columns: those that do not are left out."""
    unfit_key: str | None
    """Why the key does not fit its columns."""


class Values:
    """Reads rows of a table: canonical values by column."""

    def __init__(self, columns: Columns, shape: Shape) -> None:
        self._columns, self._shape = columns, shape

    def rows(
        self, texts: Sequence[str | None], keys: Sequence[str], encoding: str, version: int | None
    ) -> list[ReadRow]:
        """Images of one encoding and version, with their normalised keys."""
        found: list[dict[str, bytes]] = [{} for _ in keys]
        whole = [True] * len(keys)
        unfit_keys: list[str | None] = [None] * len(keys)
        images = _OBJECTS.decode("[" + ",".join(text or "{}" for text in texts) + "]")
        for name in dict.fromkeys(name for image in images for name in image):
            reader = reader_of(self._columns, self._shape, encoding, version, name)
            if reader is not None:
                there = [place for place, image in enumerate(images) if name in image]
                for place in _add(found, there, [bytes(images[place][name]) for place in there], reader):
                    whole[place] = False
        values = _ARRAYS.decode("[" + ",".join(keys) + "]")
        for number, one in enumerate(self._shape.key_columns):
            declared = not one.id.startswith("+")
            reader = Reader(one.id, canonical.reader(one.kind) if declared else same, one.kind, declared)
            unfit = _add(found, range(len(keys)), [bytes(key[number]) for key in values], reader)
            unfit_keys = [unfit.get(place, why) for place, why in enumerate(unfit_keys)] if unfit else unfit_keys
        return list(map(ReadRow, found, whole, unfit_keys))


def _add(rows: list[dict[str, bytes]], places: Sequence[int], values: Sequence[bytes], reader: Reader) -> Reasons:
    """Adds values of a column to the rows at these places; returns the places of those that do not fit, and why."""
    shown, unfit = _shown(values, reader)
    for place, text in zip(places, shown, strict=True):
        rows[place][reader.id] = text
    for number in unfit:
        del rows[places[number]][reader.id]
    return {places[number]: why for number, why in unfit.items()}


def widened(values: Sequence[bytes], was: ReplicaColumn, now: ReplicaColumn) -> list[bytes]:
    """Values as a column held them, as it holds them now: what reading the changes again would give."""
    if was.kind.kind == "decimal":
        # Bare numbers, which every kind takes.
        values = [canonical.text_of(value).encode() for value in values]
    read = canonical.reader(now.kind) if now.is_declared else same
    return _shown(values, Reader(now.id, read, now.kind, now.is_declared))[0]


def _shown(values: Sequence[bytes], reader: Reader) -> tuple[list[bytes], Reasons]:
    """The values as their column holds them, and why some do not fit."""
    if reader.declared:
        array, misfits = column(values, reader.kind, reader.read)
        return json_column(array, reader.kind), {misfit.place: misfit.reason for misfit in misfits}
    return inferred(values, reader.kind, None if reader.read is same else reader.read)


def inferred(values: Sequence[bytes], kind: Type, read: Convert | None = None) -> tuple[list[bytes], Reasons]:
    """The same for a column that no schema declares."""
    array, unfit = undeclared(values, kind, read)
    if not unfit:
        return json_column(array, kind), {}
    if len(values) == 1:
        return [b"null"], {0: f"{values[0][:60].decode(errors='replace')} is not of type {kind}"}
    # Where one does not fit, all of them mean nothing.
    each = [inferred([value], kind, read) for value in values]
    return [shown for (shown,), _ in each], {place: why[0] for place, (_, why) in enumerate(each) if why}


def digest(key: str) -> int:
    """A number for a normalised key (a JSON array of canonical values): the first 8 bytes of the MD5 of its values.

    The partition of a row is chosen by it alone, so that all records of a row are in one. Each value counts with its
    length, as text: a column that becomes wider moves no row.
    """
    texts = (text_of(value).encode() for value in json_text.items(key))
    joined = b"".join(len(text).to_bytes(4, "big") + text for text in texts)
    return int.from_bytes(md5(joined, usedforsecurity=False).digest()[:8], "big")
