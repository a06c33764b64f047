"""Objects of one shape into columns: the same members, in the same order, with the same blanks between them.

A struct is compiled for every shape that is seen. It forgets in which order members came and what stood between them, so the
text of each object is compared with the shape's own between the values: what is equal has the shape, and loses nothing.
"""

import functools
import re
from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.text_columns import (
    Bytes,
    Lengths,
    Mask,
    Places,
    as_mask,
    byte_lengths,
    content_of,
    cut,
    every,
    lengths_of,
    lines,
)
from changeling.model import json_text

Names = tuple[str, ...]

_SEPARATOR = re.compile(rb'\s*[{,]\s*"(?:[^"\\]|\\.)*"\s*:\s*')
_END = re.compile(rb"\s*\}\s*\Z")
UNUSABLE = re.compile(r'["\\\x00-\x1f]')
"""What a name of a struct of msgspec's must not contain."""
_NAMES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXTS = msgspec.json.Decoder(str | None)
_NOTHING = msgspec.Raw(b"")
_in_order = msgspec.structs.astuple


class ShapeMismatch(Exception):
    """Some records of a batch are not plain: `plain` says which are."""

    def __init__(self, plain: Mask) -> None:
        super().__init__()
        self.plain = plain


def first_mismatches(count: int) -> ShapeMismatch:
    """For a group whose first record has no shape that others could be compared with."""
    return ShapeMismatch(np.arange(count) > 0)


def require(plain: Mask) -> None:
    """Raises `ShapeMismatch` unless all are plain."""
    if not plain.all():
        raise ShapeMismatch(plain)


class Shape(NamedTuple):
    """The names of an object's members in order, and the texts before, between and after their values."""

    names: Names
    literals: tuple[bytes, ...]
    optional: frozenset[str] = frozenset()
    """Members that some of the objects lack."""

    @staticmethod
    def of(text: bytes) -> "Shape | None":
        """The shape of an object; None where it is none, has no members, a name twice, or a name that no struct can have."""
        try:
            found = json_text.members(text)
        except (msgspec.DecodeError, RecursionError):
            return None
        if any(map(UNUSABLE.search, found)):
            return None
        literals, place = [], 0
        for value in found.values():
            separator = _SEPARATOR.match(text, place)
            if separator is None or not text.startswith(value, separator.end()):
                return None
            literals.append(separator[0])
            place = separator.end() + len(value)
        end = _END.match(text, place)
        return None if end is None or not literals else Shape(tuple(found), (*literals, end[0]))

    def with_optional(self, optional: Names, usual: Names) -> "Shape":
        """The shape of objects that may lack these members, where they come in their `usual` order, and others after them.

        The first member is never optional.
        """
        names, literals = list(self.names), list(self.literals)
        known = [name for name in usual if name in names]
        if names[: len(known)] != known:
            return self
        for name in optional:
            behind = usual[usual.index(name) + 1 :]
            place = next((names.index(other) for other in behind if other in names), len(known))
            if name not in names and place:
                names.insert(place, name)
                literals.insert(place, b"," + json_text.head(name))
                known.append(name)
        return Shape(tuple(names), tuple(literals), frozenset(optional) & frozenset(names[1:]))

    @property
    def is_compact(self) -> bool:
        """Nothing but the names, in their shortest spelling, stands between the values."""
        heads = [(b"," if place else b"{") + json_text.head(name) for place, name in enumerate(self.names)]
        return self.literals == (*heads, b"}")

    def members(self, texts: pa.Array) -> dict[str, pa.Array]:
        """The values of the members of each object, as their original text; raises `ShapeMismatch` where some have another shape.

        Null is the value of an optional member that an object lacks.
        """
        found = chain.from_iterable(map(_in_order, self._decoded(texts)))
        values = lengths_of(list(found))
        count, size = len(texts), len(self.names)
        lengths = np.empty((count, 2 * size + 1), np.int64)
        lengths[:, 1::2] = values.reshape(count, size)
        lengths[:, ::2] = [len(literal) for literal in self.literals]
        lacking = {self.names.index(name): np.zeros(0, np.bool_) for name in self.optional}
        for place in lacking:
            lacking[place] = lengths[:, 2 * place + 1] == 0
            lengths[lacking[place], 2 * place] = 0
        require(lengths.sum(axis=1) == byte_lengths(texts))
        require(self._in_place(texts, lengths))
        order = np.arange(lengths.size).reshape(lengths.shape)[:, 1::2].T.ravel()
        together = cut(texts, lengths).take(pa.array(order))
        found_values = [together.slice(place * count, count) for place in range(size)]
        for place, absent in lacking.items():
            found_values[place] = pc.if_else(pa.array(~absent), found_values[place], None)
        return dict(zip(self.names, found_values, strict=True))

    def _decoded(self, texts: pa.Array) -> list[Any]:
        decoder = _decoder(self.names, self.optional)
        found = _all_decoded(texts, decoder)
        if found is not None:
            return found
        every_name = _all_decoded(texts, _NAMES)
        if every_name is not None and not self.optional:
            # Many times quicker than an error for each of the others.
            require(np.fromiter((tuple(names) == self.names for names in every_name), np.bool_, len(texts)))
        return decoded(texts, decoder)

    def _in_place(self, texts: pa.Array, lengths: Lengths) -> Mask:
        """Where the members that are there come in this order, and nothing else does, given that the lengths are right."""
        _, content = content_of(texts)
        begins = (np.cumsum(lengths, dtype=np.int64).reshape(lengths.shape) - lengths)[:, ::2]
        right = np.ones(len(texts), np.bool_)
        for offset, places, expected in _probes(self):
            # A member that is missing at the end has nothing behind it.
            same = content.take(begins[:, places] + offset, mode="clip") == expected
            right &= (same | (lengths[:, 2 * places] == 0) if self.optional else same).all(axis=1)
        return right


@functools.lru_cache(maxsize=4096)
def _probes(shape: Shape) -> list[tuple[int, Places, Bytes]]:
    """Which bytes of the texts before members, and after the last, tell whether all of them are the shape's.

    Where in these texts, for which of them, and what they are. An object of the same members is as long as a compact one only if it is
    compact: then it is enough to distinguish the names.
    """
    literals, offsets = shape.literals, range(max(map(len, shape.literals)))
    if shape.is_compact:
        literals = literals[:-1]
        heads = range(2, min(map(len, literals)))
        one = next((offset for offset in heads if len({text[offset] for text in literals}) == len(literals)), None)
        size = next(size for size in offsets if len({text[:size] for text in literals}) == len(literals))
        offsets = range(2, size) if one is None else range(one, one + 1)
    found = []
    for offset in offsets:
        places = [place for place, text in enumerate(literals) if len(text) > offset]
        expected = np.array([literals[place][offset] for place in places], np.uint8)
        found.append((offset, np.array(places), expected))
    return found


@functools.lru_cache(maxsize=4096)
def _decoder(names: Names, optional: frozenset[str]) -> msgspec.json.Decoder[Any]:
    fields: list[Any] = []
    for place, name in enumerate(names):
        if name in optional:
            fields.append((f"member_{place}", msgspec.Raw, msgspec.field(default=_NOTHING)))
        else:
            fields.append((f"member_{place}", msgspec.Raw))
    rename = {f"member_{place}": name for place, name in enumerate(names)}
    struct = msgspec.defstruct("Object", fields, rename=rename, gc=False, kw_only=True, forbid_unknown_fields=True)
    return msgspec.json.Decoder(struct)


def decoded(texts: pa.Array, decoder: msgspec.json.Decoder[Any]) -> list[Any]:
    """Every text through a decoder; raises `ShapeMismatch` where it refuses some."""
    found = _all_decoded(texts, decoder)
    if found is not None:
        return found
    raise ShapeMismatch(np.fromiter(map(_accepted(decoder.decode), texts.to_pylist()), np.bool_, len(texts)))


def decoded_texts(texts: pa.Array) -> pa.Array:
    """The contents of JSON strings, null where one is `null` or missing; raises `ShapeMismatch` where some are anything else."""
    return pa.array(decoded(pc.fill_null(texts, b"null") if texts.null_count else texts, _TEXTS), pa.string())


def _all_decoded(texts: pa.Array, decoder: msgspec.json.Decoder[Any]) -> list[Any] | None:
    try:
        found = decoder.decode_lines(lines(texts))
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if len(found) == len(texts) else None


def _accepted(decode: Callable[[Any], object]) -> Callable[[Any], bool]:
    def accepted(text: Any) -> bool:
        try:
            decode(text)
        except (msgspec.DecodeError, RecursionError):
            return False
        return ("\n" if isinstance(text, str) else b"\n") not in text

    return accepted


def items(texts: pa.Array, count: int) -> list[pa.Array]:
    """The items of arrays of that many, with nothing between them; raises `ShapeMismatch` where some are others."""
    if not count:
        require(as_mask(pc.equal(texts, b"[]")))
        return []
    found = lengths_of(list(chain.from_iterable(map(_in_order, decoded(texts, _array_decoder(count))))))
    step = 2 * count + 1
    lengths = np.ones((len(texts), step), np.int64)
    lengths[:, 1::2] = found.reshape(len(texts), count)
    require(lengths.sum(axis=1) == byte_lengths(texts))
    pieces = cut(texts, lengths)
    places = np.arange(len(pieces), dtype=np.int64).reshape(len(texts), step)[:, ::2].ravel()
    between = np.frombuffer(pieces.take(pa.array(places)).buffers()[2], np.uint8, len(places))
    brackets = np.frombuffer(b"[" + b"," * (count - 1) + b"]", np.uint8)
    require((between.reshape(len(texts), count + 1) == brackets).all(axis=1))
    return [every(pieces, 2 * place + 1, step) for place in range(count)]


@functools.lru_cache(maxsize=1024)
def _array_decoder(count: int) -> msgspec.json.Decoder[Any]:
    fields = [(f"item_{place}", msgspec.Raw) for place in range(count)]
    return msgspec.json.Decoder(
        msgspec.defstruct("Array", fields, array_like=True, gc=False, forbid_unknown_fields=True)
    )
