"""Avro files changed value by value: what is not changed keeps every bit of its meaning, whatever the schema has.

PyIceberg writes no manifests of format version 3, and a manifest that is copied must not lose what only other writers know.
"""

import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from changeling.model.errors import ChangelingError

Value: TypeAlias = Any
"""A record is a dictionary, a map a list of pairs, a union the number of its branch with the value, a float its bytes."""
Change: TypeAlias = Callable[[dict[str, Value]], None]

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def changed(content: bytes, change: Change) -> bytes:
    """The file with each record as `change` leaves it; header and codec stay. Raises `ChangelingError` for an unknown codec."""
    source = BytesIO(content)
    if source.read(len(_MAGIC)) != _MAGIC:
        raise ChangelingError("it is not an Avro file")
    header = dict(_read_map(source, lambda: _read_bytes(source)))
    sync = source.read(_SYNC_BYTES)
    result = BytesIO()
    result.write(content[: source.tell()])
    codec = header.get("avro.codec", b"null").decode()
    schema = _Schema(msgspec.json.decode(header["avro.schema"]))
    while source.tell() < len(content):
        count, size = _read_long(source), _read_long(source)
        block, made = BytesIO(_unpacked(source.read(size), codec)), BytesIO()
        source.read(_SYNC_BYTES)
        for _ in range(count):
            record = schema.read(block, schema.root)
            change(record)
            schema.write(made, schema.root, record)
        packed = _packed(made.getvalue(), codec)
        _write_long(result, count)
        _write_long(result, len(packed))
        result.write(packed + sync)
    return result.getvalue()


class _Schema:
    """A schema, with the types that it refers to by name."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._named: dict[str, Any] = {}
        self._collect(root)

    def _collect(self, kind: Any) -> None:
        if isinstance(kind, list):
            for branch in kind:
                self._collect(branch)
        elif isinstance(kind, dict):
            if "name" in kind:
                self._named[kind["name"]] = kind
            for field in kind.get("fields", ()):
                self._collect(field["type"])
            for inner in ("items", "values", "type"):
                self._collect(kind.get(inner))

    def read(self, source: BytesIO, kind: Any) -> Value:
        """The next value of a type."""
        if isinstance(kind, list):
            branch = _read_long(source)
            return branch, self.read(source, kind[branch])
        name = kind["type"] if isinstance(kind, dict) else kind
        match name:
            case "record":
                return {field["name"]: self.read(source, field["type"]) for field in kind["fields"]}
            case "array":
                return list(_read_blocks(source, lambda: self.read(source, kind["items"])))
            case "map":
                return _read_map(source, lambda: self.read(source, kind["values"]))
            case "fixed":
                return source.read(kind["size"])
            case "int" | "long" | "enum":
                return _read_long(source)
            case "bytes":
                return _read_bytes(source)
            case "string":
                return _read_bytes(source).decode()
        if isinstance(name, str) and name in _FIXED_SIZES:
            return source.read(_FIXED_SIZES[name])
        return self.read(source, self._named[name] if isinstance(name, str) else name)

    def write(self, result: BytesIO, kind: Any, value: Value) -> None:
        """Writes a value as `read` gives it."""
        if isinstance(kind, list):
            branch, inner = value
            _write_long(result, branch)
            self.write(result, kind[branch], inner)
            return
        name = kind["type"] if isinstance(kind, dict) else kind
        match name:
            case "record":
                for field in kind["fields"]:
                    self.write(result, field["type"], value[field["name"]])
            case "array" | "map":
                if value:
                    _write_long(result, len(value))
                for item in value:
                    if name == "map":
                        _write_bytes(result, item[0].encode())
                        item = item[1]
                    self.write(result, kind["items" if name == "array" else "values"], item)
                _write_long(result, 0)
            case "int" | "long" | "enum":
                _write_long(result, value)
            case "bytes":
                _write_bytes(result, value)
            case "string":
                _write_bytes(result, value.encode())
            case _ if name == "fixed" or (isinstance(name, str) and name in _FIXED_SIZES):
                result.write(value)
            case _:
                self.write(result, self._named[name] if isinstance(name, str) else name, value)


def _read_blocks(source: BytesIO, item: Callable[[], Value]) -> list[Value]:
    found = []
    while count := _read_long(source):
        if count < 0:
            # The size of the block follows, for readers that skip it.
            _read_long(source)
        found += [item() for _ in range(abs(count))]
    return found


def _read_map(source: BytesIO, value: Callable[[], Value]) -> list[tuple[str, Value]]:
    return _read_blocks(source, lambda: (_read_bytes(source).decode(), value()))


def _read_long(source: BytesIO) -> int:
    number = shift = 0
    while True:
        (byte,) = source.read(1)
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)


def _write_long(result: BytesIO, value: int) -> None:
    number = (value << 1) ^ (value >> 63)
    while number > 0x7F:
        result.write(bytes([number & 0x7F | 0x80]))
        number >>= 7
    result.write(bytes([number]))


def _read_bytes(source: BytesIO) -> bytes:
    return source.read(_read_long(source))


def _write_bytes(result: BytesIO, value: bytes) -> None:
    _write_long(result, len(value))
    result.write(value)


def _unpacked(block: bytes, codec: str) -> bytes:
    match codec:
        case "null":
            return block
        case "deflate":
            return zlib.decompress(block, -15)
        case "zstandard":
            with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
                return bytes(stream.read())
    raise ChangelingError(f"its codec {codec!r} is not known here")


def _packed(block: bytes, codec: str) -> bytes:
    match codec:
        case "deflate":
            packer = zlib.compressobj(wbits=-15)
            return packer.compress(block) + packer.flush()
        case "zstandard":
            return bytes(pa.Codec("zstd").compress(block))
    return block
