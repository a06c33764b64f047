"""Changes into YDB's Debezium records, in the shape that they had, or in that of a mode."""

from collections.abc import Sequence

import msgspec

from changeling.formats.debezium_json.message import Members, headers_of, members, shell_filled
from changeling.formats.format import Encode, Outgoing
from changeling.formats.key_changes import rows_of
from changeling.formats.options import WriteOptions
from changeling.formats.transaction_progress import number_of
from changeling.formats.ydb_debezium.decode import wrapped_key
from changeling.formats.ydb_debezium.envelope import CONNECTOR, LETTERS, VERSION
from changeling.formats.ydb_json.envelope import UINT64, Mode
from changeling.formats.ydb_json.images import written
from changeling.formats.ydb_json.topic import topic_of
from changeling.model import json_text, position
from changeling.model.change import Change, Record, Transaction
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation

_NANOS_PER_MS = 1_000_000
_WITHOUT_IMAGES = (Mode.KEYS_ONLY, Mode.UPDATES)


class YdbDebeziumWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a writer of YDB's Debezium form."""

    mode: str | None = None
    """The changefeed's MODE; without one each record shows what its change has."""
    feed: str | None = None
    """The changefeed's name, the last part of the topic's path; without one records keep their topic, and others get `feed`."""

    def __post_init__(self) -> None:
        Mode.named(self.mode)

    @property
    def names_topic(self) -> bool:
        """A feed was named."""
        return self.feed is not None


def encoder(options: YdbDebeziumWrite) -> Encode:
    """A function from one change to its records."""
    mode = Mode.named(options.mode)

    def encode(out: Outgoing) -> Sequence[Record]:
        change = out.change
        meta = members(change.meta) if out.native and change.meta else {}
        topic = topic_of(change.table, options.feed or "feed")
        if change.op is Operation.MESSAGE:
            return [Record(None, _key(change, meta), headers_of(meta), topic)]
        if meta and mode is None:
            if change.before is None and change.after is None:
                _check_key(out, options.keyed)
            return [Record(_as_it_was(change, meta), _key(change, meta), headers_of(meta), topic)]
        records = []
        kept = members(meta["payload"]).get("source") if meta else None
        source = kept or _source(out)
        for row in rows_of(out):
            out.change = row
            before, after = _images(out, mode)
            if before is None and after is None:
                _check_key(out, options.keyed)
            pairs: list[tuple[str, bytes | str]] = [("op", quote(_letter(row, mode)))]
            pairs += [(side, text) for side, text in (("before", before), ("after", after)) if text is not None]
            value = json_text.join([("payload", json_text.join([*pairs, ("source", source)]))])
            key = None if "key_in_header" in meta else wrapped_key(row.key)
            records.append(Record(value, key, headers_of(meta), topic))
        return records

    return encode


def _key(change: Change, meta: Members) -> bytes | None:
    if "key_in_header" in meta:
        return None
    if "key_text" in meta:
        return json_text.string(meta["key_text"]).encode()
    return meta.get("key", wrapped_key(change.key))


def _check_key(out: Outgoing, keyed: bool) -> None:
    if not keyed:
        out.lose(
            "keys-only",
            "a record without images names its row only in the message key, and plain files have none;"
            " use --carrier kcat",
        )


def _as_it_was(change: Change, meta: Members) -> bytes:
    payload = members(meta["payload"])
    rows = {"before": change.before, "after": change.after}
    if change.op is Operation.READ and "after" not in payload:
        rows["before"] = change.after
    filling = {side: _bytes(rows[side]) for side in rows if rows[side] is not None}
    value = shell_filled(meta["payload"], filling)
    if "bare" in meta:
        return value
    return shell_filled(meta.get("wrapper", b'{"payload":null}'), {"payload": value})


def _bytes(text: str | bytes | None) -> bytes:
    return text.encode() if isinstance(text, str) else text or b""


def _images(out: Outgoing, mode: Mode | None) -> tuple[bytes | None, bytes | None]:
    """The images that the mode shows of a change, key columns among them."""
    change = out.change
    if mode in _WITHOUT_IMAGES:
        return None, None
    key = members(change.key or b"{}")
    if mode is Mode.OLD_IMAGE and change.op is Operation.READ and change.after_image is Image.FULL:
        # A scan shows current rows, and this mode has no other member for them.
        return json_text.join({**key, **members(change.after or b"{}")}.items()), None
    shown = written(out, mode, reset=False)
    before, after = (
        None if columns is None else json_text.join({**key, **columns}.items())
        for columns in (shown.old_image, shown.new_image)
    )
    return before, after


def _letter(change: Change, mode: Mode | None) -> str:
    if change.op is Operation.INSERT and (
        change.after_image is not Image.FULL or mode not in (None, Mode.NEW_AND_OLD_IMAGES)
    ):
        return "u"
    return LETTERS[change.op]


def _source(out: Outgoing) -> bytes:
    change = out.change
    step, transaction = _virtual_timestamp(out)
    return msgspec.json.encode(
        {
            "connector": CONNECTOR,
            "version": VERSION,
            "ts_ms": _milliseconds(out),
            "step": step,
            "txId": transaction,
            "snapshot": change.op is Operation.READ,
        }
    )


def _milliseconds(out: Outgoing) -> int | None:
    time = out.change.commit_time
    if time is None:
        out.lose("commit_time", "every record has ts_ms, the time of the commit, and this change declares none")
        return None
    millis, rest = divmod(time, _NANOS_PER_MS)
    if rest or millis < 0:
        out.lose("commit_time", "ts_ms counts milliseconds since 1970, and this time is earlier or has more digits")
    return max(millis, 0)


def _virtual_timestamp(out: Outgoing) -> tuple[int, int]:
    """Step and txId, one pair for all records of a transaction.

    A change without a position of this kind gets its own place, or that of its transaction, in the output.
    """
    change = out.change
    parts = position.decode(change.position) if change.position is not None and not out.arrived else ()
    if parts and (len(parts) != 2 or max(parts) >= UINT64):
        out.lose("position", "a record orders by step and txId, two numbers of 64 bits; this position is another")
        parts = ()
    declared = change.transaction
    if declared is not None:
        step, transaction = _of_transaction(out, declared, parts)
    elif parts:
        step, transaction = parts[0], parts[0] if out.halves else parts[1]
    else:
        step, transaction = out.progress.ordinal, out.number
    out.placed = step, transaction
    return step, transaction


def _of_transaction(out: Outgoing, declared: Transaction, parts: tuple[int, ...]) -> tuple[int, int]:
    if parts and not out.halves and declared.id == str(parts[1]):
        _lose_order(out, declared)
        return parts[0], parts[1]
    number = number_of(declared.id, UINT64)
    # Such a position is the place of the transaction, and then one inside it: records have only the former.
    inside = bool(parts) and (parts[1] == declared.order or declared.id == str(parts[0]))
    if number is None or (parts and not inside):
        out.lose("transaction", f"the id {declared.id!r} is not the txId of a position, which names the transaction")
        number = None
    _lose_order(out, declared)
    if parts and not (out.halves and inside):
        out.lose("position", "all records of a transaction have one step and txId, this position distinguishes them")
    step = parts[0] if inside else out.progress.ordinal
    return step, step if number is None else number


def _lose_order(out: Outgoing, declared: Transaction) -> None:
    if declared.order is not None or declared.total is not None:
        out.lose("transaction", "a record has the transaction's id, but no order inside it or over all")
