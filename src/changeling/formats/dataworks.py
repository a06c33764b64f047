"""`dataworks`: the rows of DataWorks' real-time synchronization, five metadata fields before the columns (seed 001)."""

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Literal, NamedTuple

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Condition, Members
from changeling.envelope.csv_rows import RowStyle
from changeling.envelope.reading import ChangeCells, Reader
from changeling.envelope.rows import ImageColumns
from changeling.envelope.writing import RecordCells, Writer, kept, milliseconds
from changeling.formats.capabilities import carrying
from changeling.formats.format import Format
from changeling.formats.framing import HEADER, CsvRows, JsonOrCsv, JsonValues
from changeling.formats.nested_text import NESTED, NestedAsText, from_text
from changeling.formats.options import ReadOptions, WriteOptions
from changeling.formats.row_sides import sides
from changeling.formats.transcode import Transcoder
from changeling.model import json_text, position, times
from changeling.model.canonical import text_of
from changeling.model.change import Change, Record
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

SEQUENCE, OPERATION, TIME = "_sequence_id_", "_operation_type_", "_execute_time_"
BEFORE, AFTER, SOURCE_TABLE = "_before_image_", "_after_image_", "_source_table_"
METADATA = (SEQUENCE, OPERATION, TIME, BEFORE, AFTER)
"""The five fields of every record, in the order in which they are written."""
RESERVED = frozenset({*METADATA, SOURCE_TABLE})
ALIASES = {SEQUENCE: "_log_file_name_offset_", TIME: "_excute_time_"}
"""Older names, read where a record lacks the current one."""
OPERATIONS = {
    ("I", "N", "Y"): Operation.INSERT,
    ("D", "Y", "N"): Operation.DELETE,
    ("U", "Y", "N"): Operation.UPDATE,
    ("U", "N", "Y"): Operation.UPDATE,
}
"""What an operation type means with its image flags: a record shows one side of its row, so an update is two."""
LETTERS = {
    **{operation: flags[0] for flags, operation in OPERATIONS.items()},
    Operation.READ: "I",
    Operation.UPSERT: "U",
    Operation.REPLACE: "U",
}
TYPES = NestedAsText(read={"json": from_text}, write=NESTED)
"""The values of rows: JSON has numbers and booleans, CSV has texts, and both spell all else as canonical text."""

_PLAIN = (
    r'~{~"_sequence_id_"~:~"(?P<sequence>[0-9]{1,99})"~,~"_operation_type_"~:~"(?P<letter>[IUD])"~,'
    r'~"_execute_time_"~:~(?P<time>-?[1-9][0-9]{0,17}|0|null)~,~"_before_image_"~:~"(?P<before>[YN])"~,'
    r'~"_after_image_"~:~"(?P<after>[YN])"~,~'.replace("~", r"[ \t\r\n]*")
)
"""The metadata of nearly every record: first, in order, and in plain spelling; the row follows."""
_QUOTED = [quote(name) for name in RESERVED]
_INTEGER, _SECONDS = "-?[0-9]{1,30}", "-?0*[1-9][0-9]{9}"
"""A time: ten digits count seconds, any other count is of milliseconds."""
_SEQUENCE = re.compile(r"(?:(?:[^:]*[^:0-9])?([0-9]+):)?([0-9]+)")
_Letter = Annotated[str, msgspec.Meta(pattern=r"^[\x01-\x09\x0b\x0c\x0e-\x7f]\Z")]


class DataworksRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of DataWorks' rows."""

    header: bool = True
    """CSV files begin with a row of names; without one, the schema's columns follow the five metadata fields."""
    delimiter: _Letter = ","
    """The delimiter of the fields of a CSV row."""
    quote: _Letter = '"'
    """The quote around a CSV field; inside it is doubled."""
    null_text: str = ""
    """The CSV field that is NULL when it is not quoted."""


class _Table(NamedTuple):
    """What all rows of one table share."""

    name: TableName | None
    schema: str | None
    key: tuple[str, ...]
    key_is_row: bool
    """The table has no other columns than the key."""


class _Header(NamedTuple):
    """The fields of a CSV file."""

    names: Sequence[str]
    roles: Mapping[str, int]
    """Where the metadata is, by the current names."""
    plain: bool
    """The five fields come first, by the current names, and the rest is data."""


class _Fields(NamedTuple):
    """What a record consists of."""

    texts: Members
    """The metadata as texts, by the current names."""
    time: Cell
    image: Cell
    row: Members | None = None
    """The columns of the image, where they are known."""
    meta: Members | None = None
    """What `meta` keeps of a record that is spelled in another way."""


def reader(options: DataworksRead) -> Reader:
    """A function from a record to its change."""
    style = RowStyle(options.delimiter, options.quote, options.null_text)

    @functools.lru_cache(maxsize=4096)
    def table_of(source_table: str | None, topic: str | None) -> _Table:
        name = options.table
        if source_table is not None and (name is None or name.name != source_table):
            name = TableName(None, None, source_table)
        if name is None and topic is not None:
            name = TableName(None, None, topic)
        schema, key = options.schema_of(name), options.key_of(name)
        key_is_row = schema is not None and {column.name for column in schema.columns} == set(key)
        return _Table(name, options.schema_text(name), key, key_is_row)

    @functools.lru_cache(maxsize=1024)
    def header_of(header: bytes | None, topic: str | None) -> _Header:
        schema = options.schema_of(table_of(None, topic).name)
        if header is not None:
            names = [name or "" for name in style.split(header.decode().removeprefix("\ufeff")).fields]
        elif schema is not None:
            names = [*METADATA, *(column.name for column in schema.columns)]
        else:
            raise Rejected("neither a JSON object, nor a CSV row with a known header; name the columns with --columns")
        if len(set(names)) < len(names) or "" in names:
            raise Rejected(f"the header names a column twice, or not at all: {', '.join(names)}")
        roles = {role: names.index(name) for role, name in _roles_of(names).items()}
        return _Header(names, roles, tuple(names[:5]) == METADATA and SOURCE_TABLE not in roles)

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        if record.value is None:
            cells.one_by_one()
            return [message_keys.tombstone(record, table_of(None, record.topic).name)]
        header = dict(record.headers).get(HEADER)
        if header is None and cells.branch(cells.starts(record.value, b"{")):
            fields = _usual_json(cells, record.value) or _other_json(cells, record.value)
        else:
            plan = cells.common(cells.each(functools.partial(header_of, header), record.topic))
            fields = _csv(cells, record.value, plan, style)
        return _change(cells, fields, cells.each(table_of, fields.texts.get(SOURCE_TABLE), record.topic), record.key)

    return read


def _roles_of(names: Collection[str]) -> dict[str, str]:
    """The name by which a record calls each metadata field; raises `Rejected` if it lacks one."""
    found = {role: role if role in names else ALIASES.get(role, role) for role in METADATA}
    for role, name in found.items():
        if name not in names:
            raise Rejected(
                f"there is no `{role}`: a change has five metadata fields, and a row without them is not a change"
            )
    return {**found, SOURCE_TABLE: SOURCE_TABLE} if SOURCE_TABLE in names else found


def _usual_json(cells: Cells, value: Cell) -> _Fields | None:
    """A record whose metadata is first, and in plain spelling: its row stays as it is; None where it is another one."""
    sequence, letter, time, before, after, rest = cells.behind(value, _PLAIN)
    if not cells.usually(cells.starts(rest, b'"')):
        return None
    image = cells.joined(b"{", rest)
    if not cells.usually(~cells.contains(image, _QUOTED) & ~cells.matches(time, _SECONDS)):
        return None
    cells.check_object(value)
    millis = cells.parse_int(cells.value({TIME: time}, TIME))
    texts = {SEQUENCE: sequence, OPERATION: letter, BEFORE: before, AFTER: after}
    return _Fields(texts, cells.time(millis, times.NANOS_PER_MILLI), image)


def _other_json(cells: Cells, value: bytes) -> _Fields:
    """A record whose metadata is not first, has older names, or another spelling."""
    members = json_text.members(value)
    roles = _roles_of(members)
    taken = set(roles.values())
    row = {name: part for name, part in members.items() if name not in taken}
    texts = {role: _text(role, members[name]) for role, name in roles.items()}
    shell = json_text.join((name, part if name in taken else b"null") for name, part in members.items())
    return _Fields(texts, _nanos(cells, texts[TIME]), cells.json_object(row), row, {"envelope": shell})


def _csv(cells: Cells, value: Cell, plan: _Header, style: RowStyle) -> _Fields:
    found, _, quoted = cells.csv_row(value, style)
    if len(found) != len(plan.names):
        cells.refuse(f"the row has {len(found)} fields, its header {len(plan.names)}")
    texts = {role: found[place] for role, place in plan.roles.items()}
    for role, text in texts.items():
        if role not in (TIME, SOURCE_TABLE):
            cells.expect(cells.present(text), f"`{role}` is empty")
    own = {place: plan.names[place] for place in range(len(found)) if place not in plan.roles.values()}
    row = {name: cells.quoted(found[place]) for place, name in own.items()}
    time = texts[TIME]
    nanos = _nanos(cells, time)
    meta: Members = {"layout": b'"csv"'}
    if quoted:
        meta["quoted"] = quote([plan.names[place] for place in quoted])
    millis = cells.matches(time, "0|-?[1-9][0-9]*") & ~cells.matches(time, _SECONDS)
    if not (plan.plain and cells.usually(millis | ~cells.present(time))):
        cells.one_by_one()
        shell = {name: None if place in own else found[place] for place, name in enumerate(plan.names)}
        meta["envelope"] = quote(shell)
    return _Fields(texts, nanos, cells.json_object(row), row, meta)


def _text(role: str, raw: bytes) -> str | None:
    if raw == b"null" and role in (TIME, SOURCE_TABLE):
        return None
    if raw == b"null" or raw[:1] in b"{[":
        raise Rejected(f"`{role}` must be a text, it is {raw[:20].decode(errors='replace')}")
    return text_of(raw)


def _nanos(cells: Cells, text: Cell) -> Cell:
    whole = cells.matches(text, _INTEGER) | ~cells.present(text)
    cells.expect(whole, lambda: f"`{TIME}` must be a whole number of milliseconds, it is {text[:40]!r}")
    seconds = cells.branch(cells.matches(text, _SECONDS))
    return cells.time(cells.parse_int(text), times.NANOS_PER_SECOND if seconds else times.NANOS_PER_MILLI)


def _change(cells: Cells, fields: _Fields, table: Cell, record_key: Cell) -> ChangeCells:
    texts, image, row = fields.texts, fields.image, fields.row
    op = cells.each(_operation, texts[OPERATION], texts[BEFORE], texts[AFTER])
    is_before, is_half = cells.equal(texts[BEFORE], "Y"), cells.equal(op, Operation.UPDATE)
    before = cells.where(is_before, image, None)
    key, size = None, Image.FULL
    names, key_is_row = cells.common(cells.each(attrgetter("key", "key_is_row"), table))
    if names:
        key = cells.row_key(cells.columns(image, names) if row is None else row, names)
        if not key_is_row:
            sized = functools.partial(_size, len(names))
            size = cells.first(cells.each_object(sized, before), size) if row is None else sized(row)
    side = cells.where(is_half, cells.where(is_before, b'"before"', b'"after"'), None)
    return ChangeCells(
        op=op,
        table=cells.each(attrgetter("name"), table),
        key=key,
        before=before,
        after=cells.where(is_before, None, image),
        before_image=cells.where(is_before, size, Image.NONE),
        after_image=cells.where(is_before, Image.NONE, Image.FULL),
        position=position_of(cells, texts[SEQUENCE], is_before),
        commit_time=fields.time,
        transaction=cells.transaction(texts[SEQUENCE], complete=cells.where(is_half & is_before, None, True)),
        meta=cells.sparse({"half": side, **(fields.meta or {}), **message_keys.kept(cells, record_key, key)}),
        schema=cells.each(attrgetter("schema"), table),
    )


def _size(key_columns: int, row: Mapping[str, object]) -> Image:
    return Image.KEY if len(row) == key_columns else Image.FULL


def _operation(letter: str, before: str, after: str) -> Operation:
    if (letter, before, after) in OPERATIONS:
        return OPERATIONS[letter, before, after]
    wanted = [f"{flags[1]} and {flags[2]}" for flags in OPERATIONS if flags[0] == letter]
    if not wanted:
        raise Rejected(f"unknown `{OPERATION}` {letter!r}: DataWorks has I, U and D")
    if not {before, after} <= {"Y", "N"}:
        raise Rejected(f"`{BEFORE}` and `{AFTER}` must be Y or N, they are {before!r} and {after!r}")
    raise Rejected(
        f"`{BEFORE}` {before} and `{AFTER}` {after} do not go with operation type {letter}: it has {', or '.join(wanted)}"
    )


def position_of(cells: Cells, text: Cell, is_before: Condition) -> Cell:
    """The position of a record by its sequence id, the before side first.

    Ids are digits, ordered as numbers; older ones name a binlog file and an offset, as in `mysql-bin.000010:7461`.
    """
    half = cells.where(is_before, 0, 1)
    (number,) = cells.captured(text, r"(?P<number>[0-9]{1,18})")
    if cells.usually(cells.present(number)):
        return cells.position(number, half)
    match = _SEQUENCE.fullmatch(text)
    if match is None:
        raise Rejected(
            f"the sequence id {text!r} is neither digits nor a binlog file and offset like mysql-bin.000010:7461"
        )
    # The thousandth digit is beyond what a position takes, and Python counts no more than some thousands.
    numbers = [int(digits.lstrip("0")[:1000] or 0) for digits in match.groups() if digits is not None]
    return position.encode(*numbers, half)


class DataworksWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a writer of DataWorks' rows."""

    layout: Literal["json", "csv"] | None = None
    """JSON objects or rows of CSV; without a choice rows stay in the layout they were read in, others become JSON."""
    source_table: bool = False
    """Adds `_source_table_`, the table's name, after the five metadata fields."""
    start: Annotated[int, msgspec.Meta(ge=0)] = 1
    """The first sequence id given to changes of other dialects; each change takes the next."""
    delimiter: _Letter = ","
    """The delimiter of the fields of a CSV row."""
    quote: _Letter = '"'
    """The quote around a CSV field that needs one."""
    null_text: str = ""
    """How NULL is written in CSV; a text that looks the same is quoted."""

    @property
    def names_table(self) -> bool:
        """`_source_table_` names it."""
        return self.source_table


def writer(options: DataworksWrite) -> Writer:
    """A function from a change to its rows."""
    style = RowStyle(options.delimiter, options.quote, options.null_text)
    typed = Transcoder(TYPES, TYPES)

    def write(cells: Cells, out: Cell) -> Sequence[RecordCells]:
        change, meta = out.change, kept(cells, out)
        topic = cells.each(topic_of, change.table)
        if not cells.usually(cells.one_of(change.op, list(LETTERS))):
            return [RecordCells(None, message_keys.restored(cells, meta, change.key), topic)]
        read_in = "csv" if "layout" in meta else "json"
        layout = options.layout or read_in
        retyped = read_in == "csv" and layout == "json"
        if retyped or "envelope" in meta or "quoted" in meta:
            cells.one_by_one()
        envelope, needless = meta.get("envelope", b"{}"), msgspec.json.decode(meta.get("quoted", b"[]"))
        metadata: Members = json_text.members(envelope)
        # What surrounded the row is worth keeping only in its original layout.
        in_shell = bool(metadata) and layout == read_in
        if not in_shell:
            metadata = _metadata(cells, out, options.start)
            if options.source_table or b"_source_table_" in envelope:
                metadata[SOURCE_TABLE] = cells.quoted(topic)
        rows = sides(cells, out, _check_names)
        if retyped:
            # Texts of CSV become the values of JSON, where the columns' types are known.
            values = typed(change)
            rows = rows._replace(before=values.before, after=values.after)

        def csv(part: Cells, row: Members | None, *own: Cell) -> Sequence[Cell]:
            found = _in_order(dict(zip(metadata, own, strict=True)), row or {})
            quoted = [place for place, name in enumerate(found) if name in needless]
            texts = [part.csv_field(value) for value in found.values()]
            return part.csv_text(texts, style, quoted), style.print([*found]).encode()

        records = []
        for flags, image, key, size in (
            ("YN", rows.before, rows.old_key, change.before_image),
            ("NY", rows.after, change.key, change.after_image),
        ):
            there = cells.present(image)
            if not cells.any(there):
                continue
            metadata |= zip((BEFORE, AFTER), map(quote, flags), strict=True)
            headers = []
            if layout == "csv":
                row = _every_column(cells, out, image, size)
                value, header = cells.by_shape(csv, (row,), *metadata.values())
                headers.append((HEADER, header))
            elif in_shell:
                value = json_text.join(_in_order(metadata, json_text.members(image)).items())
            else:
                value = cells.with_members(metadata, image)
            own_key = message_keys.restored(cells, meta, key)
            records.append(RecordCells(value, own_key, topic, headers, where=there))
        return records

    return write


def topic_of(table: TableName | None) -> str | None:
    """The topic of a table: its name."""
    return None if table is None else table.name


def _metadata(cells: Cells, out: Cell, start: int) -> Members:
    number = cells.int_text(cells.plus(out.running, start - 1))
    if out.native:
        number = cells.fields(out.change.transaction).id
        if not cells.usually(cells.present(number)):
            number = str(position.decode(out.change.position or "")[0])
    millis = milliseconds(cells, out, "a record's time has milliseconds, this one has more digits")
    seconds = cells.matches(cells.int_text(millis), _SECONDS)
    why = "the time {} in milliseconds has ten digits, which readers take for seconds"
    cells.lose(out, seconds, "commit_time", lambda: why.format(millis))
    return {
        SEQUENCE: cells.quoted(number),
        OPERATION: cells.each(lambda op: quote(LETTERS[op]), out.change.op),
        TIME: cells.int_json(cells.where(seconds, None, millis)),
        BEFORE: b"",
        AFTER: b"",
    }


def _check_names(cells: Cells, row: ImageColumns) -> tuple[ImageColumns, Sequence[Cell]]:
    for name in (*(row.before or ()), *(row.after or ())):
        if name in RESERVED:
            cells.refuse(f"the column {name!r} has the name of a metadata field")
    return row, ()


def _in_order(metadata: Members, row: Members) -> Members:
    """The fields of a record: metadata, and columns among them, in their places, other columns behind."""
    taken = set(_roles_of(metadata).values())
    places = [name for name in metadata if name in taken or name in row]
    return {**{name: metadata[name] if name in taken else row[name] for name in places}, **row}


def _every_column(cells: Cells, out: Cell, image: Cell, size: Cell) -> Cell:
    if out.native or cells.usually(cells.equal(size, Image.FULL) | ~cells.present(image)):
        return image
    row, schema = json_text.members(image), out.schema
    names = [column.name for column in schema.columns] if schema is not None else list(row)
    if any(name not in row for name in names):
        out.lose("partial", "a row of CSV has a field for every column, and cannot leave one out")
    return json_text.join({**{name: row.get(name, b"null") for name in names}, **row}.items())


def _framing(options: DataworksRead) -> JsonOrCsv:
    return JsonOrCsv(JsonValues(), CsvRows(delimiter=options.delimiter, quote=options.quote, header=options.header))


def _is_header_or_row(fields: Sequence[str]) -> bool:
    """Whether the fields of a row of CSV are those of a change, with its five metadata fields first, or of a header."""
    return {OPERATION, BEFORE, AFTER} <= set(fields) or (
        len(fields) > len(METADATA) and (*fields[1:2], *fields[3:5]) in OPERATIONS
    )


FORMAT = Format(
    name="dataworks",
    summary="DataWorks' rows in JSON or CSV: five metadata fields, then the columns; an update is two rows",
    read_options=DataworksRead,
    write_options=DataworksWrite,
    reader=reader,
    writer=writer,
    # A record need not name its table: its full name comes from the topic or from the reader's options.
    carries=carrying(
        *("insert", "update", "delete", "before", "after", "key-change", "keyless", "composite-key"),
        *("commit_time", "catalog", "schema", "null", "null-text", "types", "binary"),
    ),
    types=TYPES,
    framing=_framing,
    position="sequence id, half",
    names_table=False,
    halves=True,
    signs=tuple((sequence, OPERATION, BEFORE, AFTER) for sequence in (SEQUENCE, ALIASES[SEQUENCE])),
    row_sign=_is_header_or_row,
)
