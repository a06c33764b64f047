"""YDB's Debezium records into changes: which images there are is decided by the changefeed's mode."""

import functools

import msgspec

from changeling.envelope.cells import Cell, Cells, Members, Part
from changeling.envelope.reading import ChangeCells, Reader
from changeling.formats.debezium_envelope import IMAGES, OPERATIONS, key_columns, operation_by, remembered, row_key
from changeling.formats.options import ReadOptions
from changeling.formats.ydb_debezium.envelope import BY_STEP, CONNECTOR, KEY_HEADER, Source
from changeling.formats.ydb_json.envelope import UINT64, Mode, commit_time_of
from changeling.formats.ydb_json.topic import table_of
from changeling.model.change import Record
from changeling.model.errors import Rejected
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName

_SOURCE = Part("source", Source)
_by_letter = operation_by(OPERATIONS, "YDB")
_MILLISECOND = 1_000_000
_MEMBERS = ("op", "before", "after", "source")
"""As YDB writes them; a record has the images that its change has."""


class YdbDebeziumRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of YDB's Debezium form."""

    mode: str | None = None
    """The changefeed's MODE; in OLD_IMAGE it distinguishes an insert from an update."""

    def __post_init__(self) -> None:
        Mode.named(self.mode)


def reader(options: YdbDebeziumRead) -> Reader:
    """A function from a record to its change."""
    # OLD_IMAGE shows every row that existed before.
    overwrite = Operation.INSERT if Mode.named(options.mode) is Mode.OLD_IMAGE else Operation.UPSERT
    operation = functools.partial(_operation, overwrite)
    schema_text = functools.lru_cache(maxsize=4096)(functools.partial(_schema_text, options))
    key_names = functools.lru_cache(maxsize=4096)(options.key_of)

    def read(cells: Cells, record: Record) -> ChangeCells:
        columns, _ = key_columns(cells, dict(record.headers).get(KEY_HEADER) if record.key is None else record.key)
        table = cells.each(table_of, record.topic) if options.table is None else options.table
        if record.value is None:
            key = None if columns is None else cells.key_in_row(columns, None)
            return ChangeCells(Operation.MESSAGE, table, key, meta=_meta(cells, {"tombstone": b"true"}, record, key))
        cells.expect(
            cells.present(table),
            "the record names no table, and neither does a topic path/to/table/feed; give --table",
        )
        wrapper = cells.members(record.value) if "payload" in cells.names(record.value) else {}
        text, name = (wrapper["payload"], "payload") if wrapper else (record.value, "")
        payload = cells.members(text, name, optional=IMAGES, usual=_MEMBERS)
        if "op" not in payload:
            cells.refuse("not a record of YDB's Debezium form: its payload has no `op`")
        source = cells.struct(_SOURCE, payload.get("source"))
        cells.expect(
            cells.holds(_is_ydb, source.connector),
            lambda: f"the connector is {source.connector!r}, not 'ydb'; read it with --from debezium-json",
        )
        before, after = (_image(cells, payload, side) for side in IMAGES)
        op = cells.each(operation, payload["op"], cells.present(before), cells.present(after))
        if not cells.only(~cells.equal(op, Operation.READ) | cells.present(after)):
            # OLD_IMAGE shows the rows of a scan as old ones, though they are the current ones.
            before, after = None, before
        row = cells.first(after, before)
        cells.expect(cells.present(row) | (columns is not None), _NAMELESS)
        key = row_key(cells, row, columns, cells.common(cells.each(key_names, table)))
        position, transaction = _stamp(cells, source)
        return ChangeCells(
            op=op,
            table=table,
            key=key,
            before=before,
            after=after,
            before_image=cells.where(cells.present(before), Image.FULL, Image.NONE),
            after_image=cells.where(cells.present(after), Image.FULL, Image.NONE),
            position=position,
            commit_time=_commit_time(cells, source),
            transaction=transaction,
            meta=_meta(cells, {"payload": cells.shell(payload, IMAGES), **_outside(cells, wrapper)}, record, key),
            schema=cells.each(schema_text, table),
        )

    return read


_NAMELESS = (
    "nothing names the row: the record has no image, no message key and no header `__key`;"
    " read it with its keys (--carrier kcat)"
)


def _is_ydb(connector: str | None) -> bool:
    return connector in (None, CONNECTOR)


def _image(cells: Cells, payload: Members, side: str) -> Cell:
    raw = cells.value(payload, side)
    cells.expect(~cells.present(raw) | cells.starts(raw, b"{"), f"`{side}` must be an object")
    return raw


def _operation(overwrite: Operation, raw: bytes, has_before: bool, has_after: bool) -> Operation:
    """The operation. A mode without the row after leaves a write without one: the row is unknown."""
    found = _by_letter(raw)
    if found is Operation.DELETE and has_after:
        raise Rejected("op 'd' with a row in `after`")
    if found is Operation.INSERT and not has_after:
        raise Rejected("op 'c' without a row in `after`: only NEW_AND_OLD_IMAGES has it, which shows the row")
    return overwrite if found is Operation.UPDATE and not has_before else found


def _stamp(cells: Cells, source: Source) -> tuple[Cell, Cell]:
    """The position, and the transaction that is a part of it."""
    step, transaction = source.step, source.transaction
    if not cells.branch(cells.present(step) & cells.present(transaction)):
        return None, None
    for number in (step, transaction):
        cells.expect(
            cells.less(number, UINT64) & ~cells.less(number, 0),
            "source.step and source.txId must be whole numbers of 64 bits",
        )
    return cells.position(step, transaction), cells.transaction(cells.printed(transaction))


def _commit_time(cells: Cells, source: Source) -> Cell:
    if cells.only(~cells.equal(source.ts_ms, BY_STEP)):
        return cells.time(source.ts_ms, _MILLISECOND)
    return None if source.step is None else commit_time_of(source.step)


def _schema_text(options: YdbDebeziumRead, table: TableName) -> str | None:
    schema = options.schema_of(table)
    return None if schema is None else msgspec.structs.replace(schema, key=options.key_of(table)).to_json()


def _outside(cells: Cells, wrapper: Members) -> Members:
    """What `meta` keeps of what the payload is in."""
    if not wrapper:
        return {"bare": b"true"}
    return {"wrapper": cells.shell(wrapper, ("payload",))} if len(wrapper) > 1 else {}


def _meta(cells: Cells, meta: Members, record: Record, key: Cell) -> Cell:
    """`meta` with the headers, and the message key where it is not the usual wrapper around the canonical one."""
    if record.key is None and any(name == KEY_HEADER for name, _ in record.headers):
        meta["key_in_header"] = b"true"
    return cells.shell({**meta, **remembered(cells, record, wrapped_key(cells, key))})


def wrapped_key(cells: Cells, key: Cell) -> Cell:
    """The message key that YDB writes."""
    return cells.joined(b'{"payload":', key, b"}")
