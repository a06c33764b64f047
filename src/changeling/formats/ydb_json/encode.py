"""Changes into changefeed records, in the shape that they had, or in that of a mode."""

from collections.abc import Iterable, Sequence

from changeling.formats.format import Encode, Outgoing
from changeling.formats.key_changes import rows_of
from changeling.formats.options import WriteOptions
from changeling.formats.ydb_json.envelope import MEMBERS, Mode, print_stamp, stamp_of
from changeling.formats.ydb_json.images import Written, written
from changeling.formats.ydb_json.table_changes import print_schema
from changeling.formats.ydb_json.topic import topic_of
from changeling.model import json_text
from changeling.model.change import Change, Record
from changeling.model.operation import Image, Operation


class YdbJsonWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a writer of YDB's changefeeds."""

    mode: str | None = None
    """The changefeed's MODE; without one each record shows what its change has."""
    reset: bool | None = None
    """Write a replace as `reset`, or as an `update` that names every column: the default where these are known."""
    virtual_timestamps: bool | None = None
    """Write `ts`: always (a change without is a loss), never, or where the change has one."""
    feed: str | None = None
    """The changefeed's name, the last part of the topic's path; without one records keep their topic, and others get `feed`."""

    def __post_init__(self) -> None:
        Mode.named(self.mode)

    @property
    def names_topic(self) -> bool:
        """A feed was named."""
        return self.feed is not None


def encoder(options: YdbJsonWrite) -> Encode:
    """A function from one change to its record."""
    mode = Mode.named(options.mode)

    def encode(out: Outgoing) -> Sequence[Record]:
        change = out.change
        topic = topic_of(change.table, options.feed or "feed")
        if change.op is Operation.BARRIER:
            return [Record(value, topic=topic) for value in _barrier(out)]
        if change.op is Operation.DDL:
            return [Record(value, topic=topic) for value in _schema_change(out)]
        if change.op is Operation.MESSAGE:
            key = None if change.key is None else _key_array(out, _kept_members(out))
            return [Record(None, key, topic=topic)]
        shell = _shell(out)
        stamp = _virtual_timestamp(out, options.virtual_timestamps)
        spelled_out = change.op is Operation.REPLACE and (
            options.reset is False or (options.reset is None and change.schema is not None)
        )
        if out.native and mode is None and not spelled_out:
            key = _key_array(out, shell)
            return [Record(_as_it_was(change, shell, key, stamp), key, topic=topic)]
        records = []
        for row in rows_of(out):
            out.change = row
            key = _key_array(out, shell)
            if out.native and mode is None and "newImage" not in shell:
                content = written(out, Mode.UPDATES, bool(options.reset))
            else:
                content = written(out, mode, bool(options.reset))
            records.append(Record(_in_mode(content, shell, key, stamp), key, topic=topic))
        return records

    return encode


def _shell(out: Outgoing) -> dict[str, bytes]:
    """The members that the record had, each null where the change contains its value; empty where it is new."""
    change = out.change
    if not out.native:
        return {}
    if change.meta is not None:
        return json_text.members(change.meta)
    flag = {Operation.DELETE: "erase", Operation.REPLACE: "reset"}.get(change.op, "update")
    names = ["key", flag]
    if change.after_image is Image.FULL and flag == "update":
        names.append("newImage")
    if change.before is not None:
        names.append("oldImage")
    return dict.fromkeys([*names, "ts"], b"null")


def _key_array(out: Outgoing, shell: dict[str, bytes]) -> bytes:
    values = json_text.members(out.change.key or b"{}")
    note = shell.get("key", b"null")
    if note[:1] == b"{":
        return json_text.join_array(json_text.members(note).values())
    names: Iterable[str] = values
    if note[:1] == b"[":
        names = [json_text.string(name) for name in json_text.items(note)]
    elif not out.native and out.schema is not None and set(out.schema.key) == values.keys():
        names = out.schema.key
    return json_text.join_array(values[name] for name in names)


def _as_it_was(change: Change, shell: dict[str, bytes], key: bytes, stamp: tuple[int, int] | None) -> bytes:
    pairs: list[tuple[str, bytes | str]] = []
    for name, kept in shell.items():
        if name == "key":
            pairs.append((name, key))
        elif name == "ts":
            if stamp is not None:
                pairs.append((name, print_stamp(stamp)))
        elif name == "newImage":
            pairs.append((name, change.after or b"{}"))
        elif name == "oldImage":
            pairs.append((name, change.before or b"{}"))
        elif name not in MEMBERS or kept != b"null":
            pairs.append((name, kept))
        else:
            pairs.append((name, b"{}" if "newImage" in shell else change.after or b"{}"))
    return json_text.join(pairs)


def _in_mode(content: Written, shell: dict[str, bytes], key: bytes, stamp: tuple[int, int] | None) -> bytes:
    pairs: list[tuple[str, bytes]] = [("key", key), (content.flag, json_text.join(content.columns.items()))]
    if content.new_image is not None:
        pairs.append(("newImage", json_text.join(content.new_image.items())))
    if content.old_image is not None:
        pairs.append(("oldImage", json_text.join(content.old_image.items())))
    if stamp is not None:
        pairs.append(("ts", print_stamp(stamp)))
    return json_text.join([*pairs, *((name, kept) for name, kept in shell.items() if name not in MEMBERS)])


def _virtual_timestamp(out: Outgoing, wanted: bool | None) -> tuple[int, int] | None:
    """The stamp to write, or None; what cannot be written without one is a loss, unless none was requested."""
    change = out.change
    if wanted is False:
        return None
    # A record with `ts` has a transaction, also where the stamp happens to equal its place of arrival.
    stamp = None if out.native and change.transaction is None else _own_stamp(out)
    if stamp is not None:
        _check_transaction(out, stamp)
        return stamp
    another = "a record orders by [step, txId], the step being the commit time in milliseconds; this change has another"
    if not out.native:
        if not out.arrived:
            out.lose("position", f"{another} position")
        if change.commit_time is not None:
            out.lose("commit_time", f"{another} time or no such position")
        if change.transaction is not None:
            out.lose("transaction", "a record's transaction is the txId of `ts`, which this change does not have")
    if wanted and (out.native or out.arrived):
        out.lose("position", "`ts` was requested, and the source of this change gave it no position")
    return None


def _own_stamp(out: Outgoing) -> tuple[int, int] | None:
    """The change's position as a stamp; the step is a time too, which a change of another dialect must have."""
    if not out.native and (out.arrived or out.change.commit_time is None):
        return None
    return stamp_of(out.change)


def _check_transaction(out: Outgoing, stamp: tuple[int, int]) -> None:
    transaction = out.change.transaction
    if transaction is None:
        return
    if transaction.id != str(stamp[1]):
        out.lose("transaction", f"the id {transaction.id!r} is not the txId {stamp[1]} of the position")
    elif transaction.order is not None or transaction.total is not None:
        out.lose("transaction", "a record has the transaction's id, but no order inside it or over all")


def _barrier(out: Outgoing) -> list[bytes]:
    stamp = _own_stamp(out)
    if stamp is None:
        out.lose("barrier", "`resolved` is [step, txId], the step being the time in milliseconds; this one is another")
        return []
    shell = _kept_members(out) or {"resolved": b"null"}
    return [json_text.join((name, print_stamp(stamp) if name == "resolved" else kept) for name, kept in shell.items())]


def _schema_change(out: Outgoing) -> list[bytes]:
    stamp = _own_stamp(out)
    if stamp is None:
        out.lose("ddl", "a schema record must have `ts`, and this change has no position [step, txId]")
        return []
    shell = _kept_members(out)
    if not shell:
        if out.schema is None or not out.schema.columns or not out.schema.key:
            out.lose("ddl", "a schema record contains columns and key, and this change has no such schema")
            return []
        shell = {"tableChanges": print_schema(out.schema, out.native), "ts": b"null"}
    _check_transaction(out, stamp)
    return [json_text.join((name, print_stamp(stamp) if name == "ts" else kept) for name, kept in shell.items())]


def _kept_members(out: Outgoing) -> dict[str, bytes]:
    return json_text.members(out.change.meta) if out.native and out.change.meta is not None else {}
