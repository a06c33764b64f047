"""YDB's Debezium records into changes: which images there are is decided by the changefeed's mode."""

import functools
from collections.abc import Callable, Sequence

import msgspec

from changeling.formats.debezium_json.message import Members, Message, key_columns, members, remembered, shell
from changeling.formats.format import Decode
from changeling.formats.key_in_row import check_key
from changeling.formats.options import ReadOptions
from changeling.formats.ydb_debezium.envelope import CONNECTOR, KEY_HEADER, Source
from changeling.formats.ydb_json.envelope import UINT64, Mode, commit_time_of
from changeling.formats.ydb_json.topic import table_of
from changeling.model import json_text, times
from changeling.model.change import Change, Record, Transaction
from changeling.model.errors import Rejected
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position_of
from changeling.model.table import TableName

_source = json_text.named("source", msgspec.json.Decoder(Source).decode)
_op = json_text.named("op", msgspec.json.Decoder(str).decode)
_payload = json_text.named("payload", members)
_NANOS_PER_MS = 1_000_000
_IMAGES = ("before", "after")


class YdbDebeziumRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of YDB's Debezium form."""

    mode: str | None = None
    """The changefeed's MODE; in OLD_IMAGE it distinguishes an insert from an update."""

    def __post_init__(self) -> None:
        Mode.named(self.mode)


def decoder(options: YdbDebeziumRead) -> Decode:
    """A function from one wire record to its change."""
    return _Reader(options).decode


class _Reader:
    def __init__(self, options: YdbDebeziumRead) -> None:
        self._options, self._mode = options, Mode.named(options.mode)
        self._table, self._schema = tables_of(options), schema_texts(options)
        self._key_names = functools.lru_cache(maxsize=4096)(options.key_of)

    def decode(self, record: Record) -> Sequence[Change]:
        raw_key = record.key if record.key is not None else dict(record.headers).get(KEY_HEADER)
        columns, _ = key_columns(raw_key)
        table = self._table(record.topic)
        key = None if columns is None else json_text.canonical_key(columns.items())
        if record.value is None:
            return [Change(op=Operation.MESSAGE, table=table, key=key, meta=_meta(b'{"tombstone":true', record, key))]
        if table is None:
            raise Rejected("the record names no table, and neither does a topic path/to/table/feed; give --table")
        wrapper = members(record.value)
        bare = "payload" not in wrapper
        payload = wrapper if bare else _payload(wrapper["payload"])
        if "op" not in payload:
            raise Rejected("not a record of YDB's Debezium form: its payload has no `op`")
        source = _source(payload["source"]) if "source" in payload else Source()
        if source.connector not in (None, CONNECTOR):
            raise Rejected(f"the connector is {source.connector!r}, not 'ydb'; read it with --from debezium-json")
        change = Change(op=Operation.UPSERT, table=table, key=key, schema=self._schema(table))
        _read_images(change, _op(payload["op"]), _image(payload, "before"), _image(payload, "after"))
        if self._mode is Mode.OLD_IMAGE and change.op is Operation.UPSERT:
            # This mode shows every row that existed before.
            change.op = Operation.INSERT
        if columns is None:
            change.key = _key_in_row(change, self._key_names(table))
        elif (row := change.before if change.after is None else change.after) is not None:
            check_key(columns, row if isinstance(row, bytes) else row.encode())
        _stamp(change, source)
        head = b'{"payload":%b' % shell(payload, _IMAGES)
        if bare:
            head += b',"bare":true'
        elif len(wrapper) > 1:
            head += b',"wrapper":%b' % shell(wrapper, ("payload",))
        change.meta = _meta(head, record, change.key)
        return [change]


def tables_of(options: YdbDebeziumRead) -> Callable[[str | None], TableName | None]:
    """A function from a topic to its table, or the one that the user declared."""
    if options.table is not None:
        return lambda topic: options.table
    return functools.lru_cache(maxsize=4096)(table_of)


def schema_texts(options: YdbDebeziumRead) -> Callable[[TableName], str | None]:
    """A function from a table to the schema of its changes, as text."""

    @functools.lru_cache(maxsize=4096)
    def text(table: TableName) -> str | None:
        schema = options.schema_of(table)
        return None if schema is None else msgspec.structs.replace(schema, key=options.key_of(table)).to_json()

    return text


def _meta(head: bytes, record: Record, key: str | bytes | None) -> bytes:
    """`meta` with the headers, and the message key where it is not the usual wrapper around the canonical one."""
    message = Message(None, None, record.key, headers=record.headers)
    if record.key is None and any(name == KEY_HEADER for name, _ in record.headers):
        head += b',"key_in_header":true'
    return head + remembered(message, wrapped_key(key)) + b"}"


def wrapped_key(key: str | bytes | None) -> bytes | None:
    """The message key that YDB writes."""
    if key is None:
        return None
    return b'{"payload":%b}' % (key.encode() if isinstance(key, str) else key)


def _image(payload: Members, side: str) -> bytes | None:
    raw = payload.get(side, b"null")
    if raw == b"null":
        return None
    if raw[:1] != b"{":
        raise Rejected(f"`{side}` must be an object")
    return raw


def _read_images(change: Change, letter: str, before: bytes | None, after: bytes | None) -> None:
    """The operation and the images. A mode without the row after leaves a write without one: the row is unknown."""
    if letter == "d":
        if after is not None:
            raise Rejected("op 'd' with a row in `after`")
        change.op = Operation.DELETE
    elif letter == "c":
        if after is None:
            raise Rejected("op 'c' without a row in `after`: only NEW_AND_OLD_IMAGES has it, which shows the row")
        change.op = Operation.INSERT
    elif letter == "u":
        change.op = Operation.UPSERT if before is None else Operation.UPDATE
    elif letter == "r":
        change.op = Operation.READ
        if after is None:
            # OLD_IMAGE shows the rows of a scan as old ones, though they are the current ones.
            before, after = None, before
    else:
        raise Rejected(f"unknown op {letter!r}: YDB has c, u, d and r")
    change.before, change.after = before, after
    change.before_image = Image.NONE if before is None else Image.FULL
    change.after_image = Image.NONE if after is None else Image.FULL


def _key_in_row(change: Change, names: tuple[str, ...]) -> bytes | None:
    row = change.before if change.after is None else change.after
    if row is None:
        raise Rejected(
            "nothing names the row: the record has no image, no message key and no header `__key`;"
            " read it with its keys (--carrier kcat)"
        )
    if not names:
        return None
    columns = members(row)
    if missing := [name for name in names if name not in columns]:
        raise Rejected(f"no message key, and the row lacks the key columns {', '.join(missing)}")
    return json_text.canonical_key((name, columns[name]) for name in names)


def _stamp(change: Change, source: Source) -> None:
    step, transaction = source.step, source.transaction
    if step is not None and transaction is not None:
        if not (0 <= step < UINT64 and 0 <= transaction < UINT64):
            raise Rejected("source.step and source.txId must be whole numbers of 64 bits")
        change.position = position_of(step, transaction)
        change.transaction = Transaction(str(transaction))
    if source.ts_ms is msgspec.UNSET:
        change.commit_time = None if step is None else commit_time_of(step)
    elif source.ts_ms is not None:
        change.commit_time = times.from_units(source.ts_ms, _NANOS_PER_MS)
