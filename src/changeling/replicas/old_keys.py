"""Which changes move a row to another key: the row before the change says which key it had."""

import functools
import re
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.shapes import UNUSABLE
from changeling.envelope.text_columns import Bytes, Mask, as_mask, byte_lengths, content_of, cut, every
from changeling.model import json_text
from changeling.model.errors import Rejected
from changeling.replicas.keys import KeyReader

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+")
_ESCAPED_LETTER = b"\\u"
_PIECE = 128 * 1024
"""So many bytes stay in the cache of a core."""


def old_keys(batch: pa.RecordBatch, written: Mask, keys: pa.Array, reader: KeyReader) -> dict[int, str]:
    """The changes that move a row, of those that write one, and the key that it had; `keys` are the normalised keys that rows have now."""
    befores = batch.column("before")
    found = written & ~np.asarray(befores.is_null()) & ~np.asarray(batch.column("key").is_null())
    candidates = np.flatnonzero(found)
    moved: dict[int, str] = {}
    if not len(candidates):
        return moved
    names = tuple(json_text.members(batch.column("key")[int(candidates[0])].as_py()))
    candidates = np.flatnonzero(found & ~_begin_alike(befores, batch.column("key"), names))
    texts, own = (batch.column(name).take(pa.array(candidates)) for name in ("before", "key"))
    befores, nows = texts.to_pylist(), own.to_pylist()
    was, now = _keys_in(befores, names), _keys_in(nows, names)
    for place, old, new, text, key in zip(candidates.tolist(), was, now, befores, nows, strict=True):
        # The same bytes are the same key: no need to compare further.
        if old != new and (other := _old(key, text, reader)) is not None and other != keys[place].as_py():
            moved[place] = other
    return moved


def _begin_alike(texts: pa.Array, keys: pa.Array, names: tuple[str, ...]) -> Mask:
    """Which rows begin with the members of their key, given that no name occurs twice; of the others nothing is known."""
    unknown = np.zeros(len(texts), np.bool_)
    if len(names) != 1 or not _PLAIN_NAME.fullmatch(names[0]):
        return unknown
    name = json_text.quote(names[0])
    given = len(texts) - texts.null_count
    texts, keys = (pc.fill_null(column, "").cast(pa.binary()) for column in (texts, keys))
    heads = pc.binary_join_element_wise(pc.binary_slice(keys, 0, -1), b",", b"")
    whole = byte_lengths(texts)
    front = np.minimum(byte_lengths(heads), whole)
    fronts = every(cut(texts, np.column_stack((front, whole - front))), 0, 2)
    found = as_mask(pc.and_(pc.equal(fronts, heads), pc.starts_with(keys, b"{%b:" % name)))
    there = int(found.sum())
    begun = texts if there == given else texts.filter(pa.array(found))
    _, content = content_of(begun)
    # Each has the name at its beginning: if there are as many as texts, no text has it twice.
    once = _count(content, name) == there and not _count(content, _ESCAPED_LETTER)
    return found if once else unknown


def _count(content: Bytes, text: bytes) -> int:
    """How often a text of at least two bytes occurs."""
    found = 0
    for first in range(0, len(content), _PIECE):
        piece = content[first : first + _PIECE + len(text) - 1]
        starts = np.flatnonzero((piece[:-1] == text[0]) & (piece[1:] == text[1]))
        starts = starts[starts <= len(piece) - len(text)]
        for offset in range(2, len(text)):
            starts = starts[piece[starts + offset] == text[offset]]
        found += len(starts)
    return found


def _keys_in(texts: list[str], names: tuple[str, ...]) -> list[Any]:
    """The values of some columns in each object; other members are ignored."""
    if any(map(UNUSABLE.search, names)):
        return [[json_text.members(text).get(name) for name in names] for text in texts]
    return _decoder(names).decode("[" + ",".join(texts) + "]")


@functools.lru_cache(maxsize=1024)
def _decoder(names: tuple[str, ...]) -> "msgspec.json.Decoder[list[Any]]":
    fields: list[Any] = [(f"k{place}", msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for place in range(len(names))]
    made: Any = msgspec.defstruct("Key", fields, rename={f"k{place}": name for place, name in enumerate(names)})
    return msgspec.json.Decoder(list[made])


def _old(key: str, before: str, reader: KeyReader) -> str | None:
    was, now = json_text.members(before), json_text.members(key)
    if any(name not in was for name in now):
        return None
    try:
        return reader.of({name: was[name] for name in now})
    except (Rejected, ValueError, msgspec.DecodeError):
        return None
