"""How the columns of a table are written in the modes that the user chose: each one's conversion, and both schema parts."""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from changeling.formats.debezium_json.connect_schema import envelope_schema, key_schema
from changeling.formats.debezium_json.images import Columns
from changeling.formats.debezium_json.options import DebeziumWrite
from changeling.formats.debezium_json.types import TYPES, Decimals, Times, wire_name
from changeling.formats.type_table import is_zoned
from changeling.model import json_text
from changeling.model.canonical import Convert
from changeling.model.change import Change
from changeling.model.errors import Rejected
from changeling.model.table import schema_from_json


class Wire(NamedTuple):
    """How the rows of one schema are written."""

    conversions: Mapping[str, Convert] = {}
    columns: tuple[str, ...] = ()
    value_schema: bytes | None = None
    key_schema: bytes | None = None

    def converted(self, columns: Columns) -> Columns:
        """The values of columns as they are written."""
        if not self.conversions:
            return columns
        return {
            name: value if value == b"null" or name not in self.conversions else self.conversions[name](value)
            for name, value in columns.items()
        }


class WireTypes:
    """The wire of each schema with one set of options."""

    def __init__(self, options: DebeziumWrite) -> None:
        self._options = options
        self._times: Times = options.times or ("adaptive" if options.schemas else "isostring")
        self._decimals: Decimals = options.decimals or ("precise" if options.schemas else "string")
        self.convert = options.schemas or (self._times, self._decimals) != ("isostring", "string")
        """Values are not written as they are."""
        self._wire = functools.lru_cache(maxsize=1024)(self._wire_of)

    def of(self, change: Change, topic: str) -> Wire:
        """How a change is written."""
        return self._wire(change.schema, topic, tuple(json_text.members(change.key or b"{}")))

    def _wire_of(self, text: str | None, topic: str, key: tuple[str, ...]) -> Wire:
        if text is None:
            if self._options.schemas:
                raise Rejected("the schema part needs the types of the columns, which are not known; give --columns")
            return Wire()
        schema = schema_from_json(text)
        names = tuple(column.name for column in schema.columns)
        if not self.convert:
            return Wire({}, names)
        wires = {
            column.name: wire_name(column.canonical, self._times, self._decimals, zoned=is_zoned(column.original_type))
            for column in schema.columns
        }
        conversions = {}
        for column in schema.columns:
            write = TYPES.writer(column.canonical, wires[column.name])
            if write is not None:
                plain = TYPES.writer(column.canonical) is None
                conversions[column.name] = write if plain else _chain(TYPES.reader(column.canonical), write)
        if not self._options.schemas:
            return Wire(conversions, names)
        schema = msgspec.structs.replace(schema, key=key or schema.key)
        return Wire(
            conversions, names, envelope_schema(schema, wires, topic), key_schema(schema, wires, schema.key, topic)
        )


def _chain(read: Convert, write: Convert) -> Convert:
    def both(raw: bytes) -> bytes:
        return write(read(raw))

    return both
