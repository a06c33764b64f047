"""Whole columns of objects cut apart at their quotes, without an object of Python for any value.

For envelopes whose values are texts, numbers and words, or objects of such. Nothing but a quote that is not escaped ends a text, so
the quotes of a record tell where its texts are, and with them all else. What the records of a group have in common, names and values
such as a connector's, is compared as one literal.
"""

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.operations import Cell, Members
from changeling.envelope.quotes import BACKSLASH, QUOTE, Offsets, QuotedText
from changeling.envelope.shapes import Shape, ShapeMismatch, decoded_texts, require
from changeling.envelope.structs import MemberStruct
from changeling.envelope.text_columns import Mask, as_mask, byte_lengths, content_of
from changeling.model import json_text

Path: TypeAlias = tuple[str, ...]

_BLANK = ord(" ")
_SAMPLES = 6
"""How many records are sampled for values that all have in common."""
_TRIES = 4
"""How often a value that seemed common to all may turn out not to be."""
_SCALAR = r"^(?:null|true|false|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)$"


def _values(text: bytes, path: Path = ()) -> dict[Path, bytes] | None:
    """The values of a record that are not objects; None where one is an array, or the record is not JSON."""
    try:
        members = json_text.members(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    found: dict[Path, bytes] = {}
    for name, value in members.items():
        own = (*path, name)
        inner = {own: value} if value[:1] not in (b"{", b"[") else _values(value, own) if value[:1] == b"{" else None
        if inner is None:
            return None
        found |= inner
    return found


def _shapes(text: bytes, path: Path = ()) -> dict[Path, Shape] | None:
    """The shapes of a record and of the objects in it; None where one has none."""
    shape = Shape.of(text)
    if shape is None:
        return None
    found = {path: shape}
    for name, value in json_text.members(text).items():
        inner = _shapes(value, (*path, name)) if value[:1] == b"{" else {}
        if inner is None:
            return None
        found |= inner
    return found


class _Bound(NamedTuple):
    """A place in a skeleton: that far into one of its literals."""

    literal: int
    offset: int


class _Skeleton:
    """What the records of a group have in common: literals with a value after each, and one more."""

    def __init__(self, text: bytes, shapes: Mapping[Path, Shape], constants: Collection[Path]) -> None:
        self._shapes = shapes
        self.literals = [b""]
        self.leaves: list[Path] = []
        """The values between the literals."""
        self.constants: dict[Path, bytes] = {}
        self.objects: dict[Path, tuple[_Bound, _Bound]] = {}
        self.names: dict[Path, tuple[str, ...]] = {}
        self._add(text, (), constants)

    def _add(self, text: bytes, path: Path, constants: Collection[Path]) -> None:
        shape = self._shapes[path]
        start = self._here()
        self.names[path] = shape.names
        members = json_text.members(text)
        for name, literal in zip(shape.names, shape.literals, strict=False):
            self.literals[-1] += literal
            own, value = (*path, name), members[name]
            if value[:1] == b"{":
                self._add(value, own, constants)
            elif own in constants:
                self.constants[own] = value
                self.literals[-1] += value
            else:
                self.leaves.append(own)
                self.literals.append(b"")
        self.literals[-1] += shape.literals[-1]
        self.objects[path] = start, self._here()

    def _here(self) -> _Bound:
        return _Bound(len(self.literals) - 1, len(self.literals[-1]))


class FlatObjects:
    """Records of one shape, cut apart."""

    def __init__(
        self, text: QuotedText, skeleton: _Skeleton, leaves: dict[Path, "_Leaf"], literals: list[Offsets]
    ) -> None:
        self._text, self._skeleton, self._leaves, self._literals = text, skeleton, leaves, literals

    def members(self, path: Path = ()) -> Members:
        """The members of the records, or of an object in them."""
        return {name: self._cell((*path, name)) for name in self._skeleton.names[path]}

    def is_object(self, path: Path) -> bool:
        """Whether a member is an object."""
        return path in self._skeleton.objects

    def has_only(self, path: Path, names: tuple[str, ...]) -> bool:
        """Whether an object has exactly these members, in this order, none of them an object."""
        return self._skeleton.names[path] == names and not any(self.is_object((*path, name)) for name in names)

    def text(self, path: Path) -> pa.Array | None:
        """The texts of a member, as they were decoded when it was looked at; None where it has none."""
        leaf = self._leaves.get(path)
        return None if leaf is None else leaf.text

    def struct(self, kind: MemberStruct, path: Path) -> SimpleNamespace | None:
        """An object of known members, each attribute the column of one; None where a value is of another type."""
        if not self.is_object(path):
            return None
        found: dict[str, Cell] = {}
        for field in kind.scalars or ():
            own = (*path, field.name)
            if own in self._leaves:
                leaf = self._leaves[own]
                column = leaf.integer if field.kind is int else leaf.text
                if column is None or (column.null_count and not field.nullable):
                    return None
                found[field.attribute] = column
            elif own in self._skeleton.constants:
                try:
                    found[field.attribute] = field.decode(self._skeleton.constants[own])
                except msgspec.DecodeError:
                    return None
            elif own in self._skeleton.objects or not field.may_lack:
                return None
            else:
                found[field.attribute] = None
        return SimpleNamespace(**found) if found else None

    def _cell(self, path: Path) -> Cell:
        if path in self._leaves:
            return self._leaves[path].raw
        if path in self._skeleton.constants:
            return self._skeleton.constants[path]
        first, last = self._skeleton.objects[path]
        if first.literal == last.literal:
            return self._skeleton.literals[first.literal][first.offset : last.offset]
        begins, ends = (self._literals[place.literal] + place.offset for place in (first, last))
        return self._text.column(begins, ends)


class _Leaf:
    """The column of one value: its JSON, and what that says where all of it is of one type."""

    def __init__(self, text: QuotedText, begins: Offsets, ends: Offsets, quoted: Mask) -> None:
        self.raw = raw = text.column(begins, ends)
        self.plain: Mask = np.ones(len(raw), np.bool_)
        """Where it is a value of JSON."""
        self.integer = self.text = None
        if quoted.all():
            self.text = _contents(text, begins, ends, quoted, raw)
        elif not quoted.any():
            self.integer = _integers(raw)
            if self.integer is None:
                self.plain = as_mask(pc.match_substring_regex(raw, _SCALAR))
        else:
            words = raw.filter(pa.array(~quoted))
            self.plain[~quoted] = as_mask(pc.match_substring_regex(words, _SCALAR))
            if as_mask(pc.equal(words, b"null")).all():
                self.text = _contents(text, begins, ends, quoted, raw)
            else:
                self.plain[quoted] = _are_texts(raw.filter(pa.array(quoted)))


def _contents(text: QuotedText, begins: Offsets, ends: Offsets, quoted: Mask, raw: pa.Array) -> pa.Array:
    """What these texts say; null where there is none."""
    inner = text.column(begins + quoted, np.where(quoted, ends - 1, begins))
    bounds, content = content_of(inner)
    backslashes = np.flatnonzero(content == BACKSLASH)
    if (content.take(backslashes + 1, mode="clip") != QUOTE).any():
        return decoded_texts(raw)
    # Most texts with escapes are documents, in which only quotes are escaped.
    kept = content.tobytes().translate(None, b"\\") if len(backslashes) else content
    own = (bounds - np.searchsorted(backslashes, bounds)).astype(np.int32)
    is_there = None if quoted.all() else pa.array(quoted).buffers()[1]
    return pa.Array.from_buffers(pa.string(), len(inner), [is_there, pa.py_buffer(own), pa.py_buffer(kept)])


def _are_texts(raw: pa.Array) -> Mask:
    """Which of these parts between quotes have no escapes that JSON does not know."""
    try:
        decoded_texts(raw)
    except ShapeMismatch as error:
        return error.plain
    return np.ones(len(raw), np.bool_)


def _integers(raw: pa.Array) -> pa.Array | None:
    """Whole numbers as such; None where one is something else, or spelled as JSON does not."""
    _, content = content_of(raw)
    lengths = byte_lengths(raw)
    first = content[np.cumsum(lengths) - lengths]
    if ((first < ord("1")) & (lengths > 1)).any() or (first > ord("9")).any():
        return None
    try:
        return raw.cast(pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def flat_objects(texts: pa.Array) -> FlatObjects | None:
    """Records cut apart; None where they are not flat, or of too many shapes. Raises `ShapeMismatch` where few have another shape."""
    every = np.linspace(0, len(texts) - 1, _SAMPLES).astype(np.int64)
    samples = [_values(texts[int(place)].as_py()) for place in every]
    first, shapes = samples[0], _shapes(texts[0].as_py())
    if first is None or shapes is None or content_of(texts)[1].min() < _BLANK:
        return None
    alike = [sample for sample in samples if sample is not None and tuple(sample) == tuple(first)]
    constants = {
        path for path, value in first.items() if b"\\" not in value and all(sample[path] == value for sample in alike)
    }
    text = QuotedText(texts)
    for _ in range(_TRIES):
        skeleton = _Skeleton(texts[0].as_py(), shapes, constants)
        right, values, literals = _cut(text, skeleton)
        if not right.all():
            other = _values(texts[int(np.argmin(right))].as_py())
            varying = set() if other is None else {path for path in constants if other.get(path) != first[path]}
            if other is not None and tuple(other) == tuple(first) and varying:
                constants -= varying
                continue
            if right.sum() * 8 < 7 * len(right):
                return None
            require(right)
        leaves = {path: _Leaf(text, *value) for path, value in zip(skeleton.leaves, values, strict=True)}
        for leaf in leaves.values():
            right &= leaf.plain
        require(right)
        return FlatObjects(text, skeleton, leaves, literals)
    return None


class _Value(NamedTuple):
    """Where one of the values is in each record, and where it is a text."""

    begins: Offsets
    ends: Offsets
    quoted: Mask


class _Pieces(NamedTuple):
    """Records cut into the literals of a skeleton and the values between them."""

    right: Mask
    """Which of them fit the skeleton."""
    values: list[_Value]
    literals: list[Offsets]
    """Where each literal begins."""


def _cut(text: QuotedText, skeleton: _Skeleton) -> _Pieces:
    """Cuts records from left to right: a text ends at its second quote, anything else where the next literal begins."""
    literals = skeleton.literals
    right = np.ones(len(text.begins), np.bool_)
    # Padding, for records with fewer quotes than the skeleton has.
    beyond = np.full(sum(literal.count(b'"') for literal in literals) + 2 * len(literals), len(text.bytes))
    quotes = np.concatenate((text.quotes, beyond))
    at, next_quote = text.begins, np.searchsorted(text.quotes, text.begins)
    values: list[_Value] = []
    starts: list[Offsets] = []
    for literal, behind in zip(literals, [*literals[1:], b""], strict=True):
        starts.append(at)
        right &= text.holds(literal, at)
        at = at + len(literal)
        if len(starts) == len(literals):
            right &= at == text.ends
            break
        next_quote = next_quote + literal.count(b'"')
        is_text = text.bytes.take(at, mode="clip") == QUOTE
        begins = at
        front = behind.find(b'"')
        before_next = text.ends - len(behind) if front < 0 else quotes[next_quote] - front
        if is_text.all():
            at = quotes[next_quote + 1] + 1
        else:
            at = np.where(is_text, quotes[next_quote + 1] + 1, before_next) if is_text.any() else before_next
        next_quote = next_quote + 2 * is_text
        right &= at > begins
        values.append(_Value(begins, at, is_text))
    return _Pieces(right, values, starts)
