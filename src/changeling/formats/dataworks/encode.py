"""Changes into DataWorks' rows: the five metadata fields, then the columns; an update is two rows of one sequence id."""

import functools
from collections.abc import Sequence

import msgspec

from changeling.envelope.one import ONE
from changeling.formats.dataworks import message_key, sequence
from changeling.formats.dataworks.csv_rows import CsvStyle
from changeling.formats.dataworks.envelope import (
    AFTER,
    BEFORE,
    FLAGS,
    LETTERS,
    OPERATION,
    RESERVED,
    SEQUENCE,
    SOURCE_TABLE,
    TIME,
    roles_of,
)
from changeling.formats.dataworks.options import DataworksWrite
from changeling.formats.dataworks.rows import Side, sides
from changeling.formats.dataworks.types import TYPES
from changeling.formats.format import Encode, Outgoing
from changeling.formats.framing import HEADER
from changeling.model import json_text, position
from changeling.model.canonical import text_of
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import schema_from_json

Cells = dict[str, bytes]
"""The fields of a record in order, each as JSON."""


def encoder(options: DataworksWrite) -> Encode:
    """A function from one change to its rows."""
    return _Writer(options).encode


class _Writer:
    def __init__(self, options: DataworksWrite) -> None:
        self._options = options
        self._style = CsvStyle(options.delimiter, options.quote, options.null_text)
        self._header = functools.lru_cache(maxsize=1024)(self._style.print)

    def encode(self, out: Outgoing) -> Sequence[Record]:
        change = out.change
        meta = json_text.members(change.meta) if out.native and change.meta else {}
        topic = None if change.table is None else change.table.name
        if change.op is Operation.MESSAGE:
            return [Record(None, message_key.restored(meta, change.key), topic=topic)]
        read_in = json_text.string(meta["layout"]) if "layout" in meta else "json"
        layout = self._options.layout or (read_in if out.native else "json")
        # What surrounded the row is worth keeping only in its original layout.
        shell = json_text.members(meta["envelope"]) if "envelope" in meta and layout == read_in else None
        metadata = self._metadata(out, b"_source_table_" in meta.get("envelope", b"")) if shell is None else {}
        records = []
        for side in sides(out):
            if not out.native:
                _check_names(side)
            elif layout == "json" and read_in == "csv":
                side = side._replace(image=_typed(side.image, change))
            flags = dict(zip((BEFORE, AFTER), map(quote, FLAGS[side.name]), strict=True))
            key = message_key.restored(meta, side.key)
            if layout == "csv":
                row = _every_column(out, side)
                cells = {**metadata, **flags, **row} if shell is None else _in_shell(shell, flags, row)
                records.append(self._csv(cells, meta.get("quoted"), key, topic))
            elif shell is not None:
                row = json_text.members(side.image)
                records.append(Record(json_text.join(_in_shell(shell, flags, row).items()), key, topic=topic))
            else:
                records.append(Record(_json({**metadata, **flags}, side.image), key, topic=topic))
        return records

    def _metadata(self, out: Outgoing, named: bool) -> Cells:
        change = out.change
        found = {
            SEQUENCE: quote(_own_sequence(change) if out.native else str(self._options.start + out.number - 1)),
            OPERATION: quote(LETTERS[change.op]),
            TIME: _time(out),
            BEFORE: b"",
            AFTER: b"",
        }
        if named or self._options.source_table:
            found[SOURCE_TABLE] = quote(None if change.table is None else change.table.name)
        return found

    def _csv(self, cells: Cells, quoted: bytes | None, key: bytes | None, topic: str | None) -> Record:
        needless = set() if quoted is None else set(msgspec.json.decode(quoted, type=list[str]))
        places = {place for place, name in enumerate(cells) if name in needless}
        value = self._style.print((_cell(raw) for raw in cells.values()), places)
        return Record(value, key, ((HEADER, self._header(tuple(cells))),), topic)


def _json(metadata: Cells, image: bytes) -> bytes:
    head = json_text.join(metadata.items())[:-1]
    columns = image[image.index(b"{") + 1 :].lstrip()
    return head + columns if columns[:1] == b"}" else b"%b,%b" % (head, columns)


def _check_names(side: Side) -> None:
    for name in json_text.members(side.image):
        if name in RESERVED:
            raise Rejected(f"the column {name!r} has the name of a metadata field")


def _in_shell(shell: Cells, flags: Cells, row: Cells) -> Cells:
    """The record as it was: metadata in its places and under its names, the row's values between."""
    taken = {name: role for role, name in roles_of(shell).items()}
    found = {
        name: flags.get(taken[name], part) if name in taken else row[name]
        for name, part in shell.items()
        if name in taken or name in row
    }
    return {**found, **row}


def _every_column(out: Outgoing, side: Side) -> Cells:
    row = json_text.members(side.image)
    if out.native or side.size is Image.FULL:
        return row
    schema = out.schema
    names = [column.name for column in schema.columns] if schema is not None else list(row)
    if any(name not in row for name in names):
        out.lose("partial", "a row of CSV has a field for every column, and cannot leave one out")
    return {**{name: row.get(name, b"null") for name in names}, **row}


def _cell(raw: bytes) -> str | None:
    if raw == b"null":
        return None
    return json_text.compact(raw).decode() if raw[:1] in b"{[" else text_of(raw)


def _typed(image: bytes, change: Change) -> bytes:
    """Texts of CSV as the values of JSON, where the columns' types are known."""
    if change.schema is None:
        return image
    schema = schema_from_json(change.schema)
    pairs = []
    for name, raw in json_text.members(image).items():
        column = schema.column(name)
        if column is not None and raw != b"null":
            try:
                raw = TYPES.reader(column.canonical)(raw)
            except Rejected as error:
                raise Rejected(f"column {name!r}: {error}") from None
            write = TYPES.writer(column.canonical)
            raw = raw if write is None else write(raw)
        pairs.append((name, raw))
    return json_text.join(pairs)


def _own_sequence(change: Change) -> str:
    if change.transaction is not None:
        return change.transaction.id
    return str(position.decode(change.position or "")[0])


def _time(out: Outgoing) -> bytes:
    nanos = out.change.commit_time
    if nanos is None:
        return b"null"
    millis, rest = divmod(nanos, sequence.NANOS_PER_MILLI)
    if rest:
        out.lose("commit_time", "a record's time has milliseconds, this one has more digits")
    if sequence.means_seconds(ONE, millis):
        out.lose("commit_time", f"the time {millis} in milliseconds has ten digits, which readers take for seconds")
        return b"null"
    return str(millis).encode()
