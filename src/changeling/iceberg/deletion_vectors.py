"""Deletion vectors: which rows of a data file are deleted, as format version 3 keeps them in Puffin files.

A vector is a blob of a Puffin file: its length, a magic number, a 64-bit Roaring bitmap of positions, a checksum. One Puffin
file holds the vectors of many data files; each data file has one vector at most.
"""

import struct
import zlib
from collections.abc import Callable, Mapping
from uuid import uuid4

import msgspec
import numpy as np
from pyarrow import fs
from pyroaring import BitMap64

from changeling.iceberg.parquet_files import filesystem
from changeling.model.errors import ChangelingError

_MAGIC = b"\xd1\xd3\x39\x64"
_PUFFIN = b"PFA1"
_POSITION_FIELD = 2147483645
"""Iceberg's reserved id of a row's position in its file."""


class Vector(msgspec.Struct, frozen=True):
    """Where the deleted positions of one data file are stored."""

    path: str
    offset: int
    size: int
    count: int
    file_size: int


def read(vector: Vector) -> np.ndarray:
    """The deleted positions, ascending; raises `ChangelingError` where the blob is not what its checksum says."""
    store, path = filesystem(vector.path)
    with store.open_input_file(path) as file:
        blob = file.read_at(vector.size, vector.offset)
    body = blob[4:-4]
    (length,), (checksum,) = struct.unpack(">i", blob[:4]), struct.unpack(">I", blob[-4:])
    if length != len(body) or not body.startswith(_MAGIC) or checksum != zlib.crc32(body):
        raise ChangelingError(
            f"{vector.path} is damaged: the deletion vector at {vector.offset} does not match its checksum"
        )
    return np.array(BitMap64.deserialize(body[len(_MAGIC) :]).to_array(), np.int64)


def write(location: str, deleted: Mapping[str, np.ndarray]) -> dict[str, Vector]:
    """Writes one Puffin file under a table's location with a vector for each data file; none where nothing is deleted."""
    if not deleted:
        return {}
    path = f"{location.rstrip('/')}/data/{uuid4()}.puffin"
    parts, blobs, places, offset = [_PUFFIN], [], {}, len(_PUFFIN)
    for data_file, positions in deleted.items():
        blob = _blob(positions)
        places[data_file] = (offset, len(blob), len(positions))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_POSITION_FIELD],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": offset,
                "length": len(blob),
                "properties": {"referenced-data-file": data_file, "cardinality": str(len(positions))},
            }
        )
        parts.append(blob)
        offset += len(blob)
    footer = msgspec.json.encode({"blobs": blobs, "properties": {}})
    parts += [_PUFFIN, footer, struct.pack("<i", len(footer)), b"\0\0\0\0", _PUFFIN]
    whole = b"".join(parts)
    store, place = filesystem(path)
    if isinstance(store, fs.LocalFileSystem):
        store.create_dir(place.rpartition("/")[0], recursive=True)
    with store.open_output_stream(place) as sink:
        sink.write(whole)
    return {name: Vector(path, *found, len(whole)) for name, found in places.items()}


def with_footer(content: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """A Puffin file with its footer, a JSON text, as `change` leaves it; raises `ChangelingError` where the footer is compressed."""
    size, flags, magic = struct.unpack("<i4s4s", content[-12:])
    start = len(content) - 12 - size
    if magic != _PUFFIN or content[start - 4 : start] != _PUFFIN or flags != b"\0\0\0\0":
        raise ChangelingError("it is no Puffin file, or its footer is compressed")
    footer = change(content[start:-12])
    return content[:start] + footer + struct.pack("<i", len(footer)) + content[-8:]


def _blob(positions: np.ndarray) -> bytes:
    body = _MAGIC + BitMap64(positions.tolist()).serialize()
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
