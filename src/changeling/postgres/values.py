"""Converts columns from the server's text format into canonical JSON, a column at a time.

It returns what `literals` returns value by value. A value is kept in parts (an opening, a text, a closing), so that quotes cost
nothing: they are joined with the names of the columns when objects are built.
"""

import binascii
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.model.json_text import quote
from changeling.model.types import INTEGER_RANGES
from changeling.postgres.literals import Literal, literal
from changeling.postgres.relation import PgType
from changeling.postgres.types import canonical_type, is_hstore, item_of

Around = tuple[tuple[bytes, bytes], ...]
"""Possible openings and closings of a value."""
WHOLE: Around = ((b"", b""),)
QUOTED: Around = ((b'"', b'"'),)

_FLOATS: Around = ((b"", b""), (b'"', b'"'))
_BOOLEANS = pa.array([b"false", b"true"], pa.binary())
_HEX_ZEROS = pa.array([b"", b"00", b"0000"], pa.binary())
_BACKSLASH = 0x5C
# The backslash comes first: the other escapes contain backslashes.
_ESCAPES = {byte: quote(chr(byte))[1:-1] for byte in (_BACKSLASH, 0x22, *range(0x20))}


class Pieces(NamedTuple):
    """JSON values: number i is `around[forms[i]]` around `texts[places[i]]`. Without forms, all use the first."""

    texts: pa.BinaryArray
    around: Around
    forms: np.ndarray | None = None
    places: np.ndarray | None = None

    def whole(self) -> pa.BinaryArray:
        """Each value as one text."""
        count = len(self.texts) if self.places is None else len(self.places)
        forms = np.zeros(count, np.int64) if self.forms is None else self.forms
        texts = self.texts if self.places is None else self.texts.take(pa.array(self.places))
        opening, closing = (
            pa.array(part, pa.binary()).take(pa.array(forms)) for part in zip(*self.around, strict=True)
        )
        return pc.binary_join_element_wise(opening, texts, closing, b"")


Reading = Callable[[pa.BinaryArray], Pieces]
"""Converts the texts of a column, none of them null, into JSON. Raises `ValueError` on a text that is not one of the type."""


@functools.lru_cache(maxsize=4096)
def reading(kind: PgType) -> Reading:
    """The converter for columns of this type."""
    one = literal(kind)
    if (item := item_of(kind)) is not None:
        numbers = canonical_type(item).kind in (*INTEGER_RANGES, "float32", "float64")
        read: Reading = functools.partial(_number_arrays, one) if numbers else each(one)
    elif is_hstore(kind):
        read = each(one)
    else:
        read = _by_type(canonical_type(kind).kind, one)
    return lambda texts: read(texts) if len(texts) else Pieces(texts, WHOLE)


def _by_type(kind: str, one: Literal) -> Reading:
    if kind in INTEGER_RANGES or kind == "json":
        return lambda texts: Pieces(texts, WHOLE)
    if kind in ("decimal", "date", "uuid"):
        return lambda texts: Pieces(texts, QUOTED)
    special: dict[str, Reading] = {
        "bool": functools.partial(_booleans, one),
        "string": strings,
        "float32": _floats,
        "float64": _floats,
        "bytes": _binary,
        "time": functools.partial(_times, one),
        "timestamp": functools.partial(_timestamps, one, False),
        "timestamptz": functools.partial(_timestamps, one, True),
    }
    return special.get(kind) or each(one)


def parts(texts: pa.BinaryArray) -> tuple[np.ndarray, np.ndarray]:
    """The data buffer of an array, and the offsets in it where its values begin and the last one ends."""
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4)
    return np.frombuffer(b"" if data is None else data, np.uint8), places


def spans(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> pa.BinaryArray:
    """The bytes from each start to its end and, between them, the gaps: span i is value 2 * i.

    Spans ascend and do not overlap. No byte is copied.
    """
    places = np.empty(2 * len(starts), np.int32)
    places[0::2] = starts
    places[1::2] = ends
    return pa.Array.from_buffers(pa.binary(), len(places) - 1, [None, pa.py_buffer(places), pa.py_buffer(data)])


def each(one: Literal) -> Reading:
    """A converter that converts a column value by value."""
    return lambda texts: Pieces(pa.array([one(text) for text in texts.to_pylist()], pa.binary()), WHOLE)


def strings(texts: pa.BinaryArray) -> Pieces:
    """Text of any kind; escapes are inserted only if some value needs one."""
    data, places = parts(texts)
    data = data[places[0] : places[-1]]
    odd = (data < 0x20) | (data == 0x22) | (data == _BACKSLASH)
    if odd.any():
        found = set(np.unique(data[odd]).tolist())
        for byte, escape in _ESCAPES.items():
            if byte in found:
                texts = pc.replace_substring(texts, pattern=bytes([byte]), replacement=escape)
    return Pieces(texts, QUOTED)


def _booleans(one: Literal, texts: pa.BinaryArray) -> Pieces:
    data, places = parts(texts)
    letters = data[places[0] : places[-1]]
    if len(letters) != len(texts) or not ((letters == ord("t")) | (letters == ord("f"))).all():
        return each(one)(texts)
    return Pieces(_BOOLEANS.take(pa.array((letters == ord("t")).astype(np.int8))), WHOLE)


def _floats(texts: pa.BinaryArray) -> Pieces:
    data, places = parts(texts)
    # NaN and the infinities end with a letter.
    named = data[places[1:] - 1] > ord("9")
    return Pieces(texts, _FLOATS, named.astype(np.int64)) if named.any() else Pieces(texts, WHOLE)


def _binary(texts: pa.BinaryArray) -> Pieces:
    """Hex into Base64: values are padded to groups of three bytes, so that all are encoded in one call."""
    data, places = parts(texts)
    starts, ends = places[:-1].astype(np.int64), places[1:].astype(np.int64)
    digits = ends - starts - 2
    if (digits < 0).any() or (data[starts] != _BACKSLASH).any() or (data[starts + 1] != ord("x")).any():
        raise ValueError("a bytea is not in hex: the session's bytea_output must be hex")
    missing = -digits % 6
    if (missing % 2).any():
        raise ValueError("a bytea has half a byte")
    hexes = spans(data, starts + 2, ends)
    index = np.empty((len(texts), 2), np.int64)
    index[:, 0] = np.arange(0, len(hexes), 2)
    index[:, 1] = len(hexes) + missing // 2
    filled, _ = parts(pa.concat_arrays([hexes, _HEX_ZEROS]).take(pa.array(index.reshape(-1))))
    coded = np.frombuffer(binascii.b2a_base64(binascii.unhexlify(filled.tobytes()), newline=False), np.uint8).copy()
    offsets = np.zeros(len(places), np.int32)
    np.cumsum((digits + missing) // 6 * 4, out=offsets[1:])
    coded[offsets[1:][missing >= 2] - 1] = ord("=")
    coded[offsets[1:][missing == 4] - 2] = ord("=")
    base64 = pa.Array.from_buffers(pa.binary(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(coded)])
    return Pieces(base64, QUOTED)


def _filled(zone: bytes) -> Around:
    """Closings of times whose fractions lack no digit, one, or two; then that of a complete value."""
    return (*((b'"', zeros + zone + b'"') for zeros in (b"", b"0", b"00")), (b"", b""))


_CLOCKS, _ZONED = _filled(b""), _filled(b"Z")


def _times(one: Literal, texts: pa.BinaryArray) -> Pieces:
    data, places = parts(texts)
    starts, lengths = places[:-1], np.diff(places)
    plain = (lengths == 8) | ((lengths > 9) & (lengths < 16) & (_at(data, starts, 8) == ord(".")))
    return _with_odd_values(Pieces(texts, _CLOCKS, _lacking(lengths, 8)), plain, texts, one)


def _timestamps(one: Literal, zoned: bool, texts: pa.BinaryArray) -> Pieces:
    data, places = parts(texts)
    starts, ends = places[:-1], places[1:]
    lengths = ends - starts - 3 * zoned
    plain = (_at(data, starts, 4) == ord("-")) & (_at(data, starts, 10) == ord(" ")) & (lengths >= 19)
    plain &= (lengths == 19) | ((lengths > 20) & (lengths < 27) & (_at(data, starts, 19) == ord(".")))
    last = _at(data, ends, -1)
    plain &= last == ord("0") if zoned else last != ord("C")
    if zoned:
        plain &= (_at(data, ends, -2) == ord("0")) & (_at(data, ends, -3) == ord("+"))
    data = data.copy()
    data[starts[plain] + 10] = ord("T")
    pieces = Pieces(
        spans(data, starts, np.where(plain, ends - 3 * zoned, ends)),
        _ZONED if zoned else _CLOCKS,
        _lacking(lengths, 19),
        np.arange(0, 2 * len(texts), 2),
    )
    return _with_odd_values(pieces, plain, texts, one)


def _at(data: np.ndarray, places: np.ndarray, offset: int) -> np.ndarray:
    """The bytes at an offset from these places; any byte where a value is too short."""
    return data.take(places + offset, mode="clip")


def _lacking(lengths: np.ndarray, seconds: int) -> np.ndarray:
    """How many zeros a fraction lacks of 3 or 6 digits, given the length of the time and of its part up to the seconds."""
    return np.where(lengths > seconds, (seconds + 1 - lengths) % 3, 0).astype(np.int64)


def _with_odd_values(pieces: Pieces, plain: np.ndarray, texts: pa.BinaryArray, one: Literal) -> Pieces:
    """The pieces, with those that are not plain converted one by one. The last form must be that of complete values."""
    if plain.all():
        return pieces
    odd = np.flatnonzero(~plain)
    places = np.arange(len(texts)) if pieces.places is None else pieces.places.copy()
    places[odd] = len(pieces.texts) + np.arange(len(odd))
    whole = len(pieces.around) - 1
    forms = np.where(plain, 0 if pieces.forms is None else pieces.forms, whole)
    odd_values = pa.array([one(text) for text in texts.take(pa.array(odd)).to_pylist()], pa.binary())
    return Pieces(pa.concat_arrays([pieces.texts, odd_values]), pieces.around, forms, places)


_BRACKETS = np.arange(256, dtype=np.uint8)
_BRACKETS[[ord("{"), ord("}")]] = [ord("["), ord("]")]
# The only letters are those of NULL and of exponents.
_BRACKETS[[ord("N"), ord("U"), ord("L")]] = [ord("n"), ord("u"), ord("l")]


def _number_arrays(one: Literal, texts: pa.BinaryArray) -> Pieces:
    """Arrays of plain numbers differ from JSON only in a few letters."""
    data, places = parts(texts)
    inside = data[places[0] : places[-1]]
    # Explicit bounds, infinities, NaN.
    if ((inside == ord("=")) | (inside == ord("I")) | (inside == ord("a"))).any():
        return each(one)(texts)
    moved = pa.py_buffer(places - places[0])
    return Pieces(pa.Array.from_buffers(pa.binary(), len(texts), [None, moved, pa.py_buffer(_BRACKETS[inside])]), WHOLE)
