"""Changes into stream records, in the shape that they had, or as a YDB changefeed prints them."""

from collections.abc import Sequence
from typing import Literal

from changeling.formats.format import Encode, Outgoing
from changeling.formats.key_changes import rows_of
from changeling.formats.ydb_dynamodb import envelope
from changeling.formats.ydb_dynamodb.envelope import EVENT_SOURCE, EVENT_VERSION, MOST_SEQUENCE_DIGITS, SEQUENCE_DIGITS
from changeling.formats.ydb_dynamodb.images import print_image
from changeling.formats.ydb_dynamodb.views import View, same_key_value, view_of
from changeling.formats.ydb_json.envelope import Mode
from changeling.formats.ydb_json.topic import ChangefeedWrite, topic_of
from changeling.model import json_text, position
from changeling.model.change import Change, Record
from changeling.model.json_text import quote
from changeling.model.operation import Operation

_Members = dict[str, bytes]


class YdbDynamodbWrite(ChangefeedWrite, frozen=True, kw_only=True):
    """Options of a writer of stream records."""

    region: str | None = None
    """`awsRegion`; without one that of the record that was read, else empty."""
    shard: str = "0"
    """The first part of `eventID`, before the sequence number."""
    nulls: Literal["write", "omit"] = "write"
    """Columns that are NULL: as `{"NULL":true}`, like Amazon, or left out, like YDB."""
    time_unit: Literal["seconds", "milliseconds"] = "seconds"
    """What `ApproximateCreationDateTime` counts: seconds, with a fraction where there is one, or milliseconds, like YDB."""


def encoder(options: YdbDynamodbWrite) -> Encode:
    """A function from one change to its record, or to two where it moves its row to another key."""
    mode, omit_nulls = Mode.named(options.mode), options.nulls == "omit"

    def encode(out: Outgoing) -> Sequence[Record]:
        change = out.change
        topic = topic_of(change.table, options.feed or "feed")
        if change.op is Operation.MESSAGE:
            return [Record(None, _message_key(out), topic=topic)]
        record, body = _kept(out)
        if record and mode is None:
            value = _as_it_was(change, record, body, options)
            return [Record(value, _bytes(change.key), topic=topic)]
        if not record:
            record, body = _new(out, options)
        rows = rows_of(out, same_key_value)
        made = []
        for row in rows:
            out.change = row
            view = view_of(out, mode, omit_nulls)
            moved_away = row is not rows[-1]
            made.append(Record(_print(record, body, view, options, moved_away), view.keys, topic=topic))
        return made

    return encode


def _bytes(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _message_key(out: Outgoing) -> bytes | None:
    meta = json_text.members(out.change.meta) if out.native and out.change.meta else {}
    return json_text.string(meta["messageKey"]).encode() if "messageKey" in meta else _bytes(out.change.key)


def _kept(out: Outgoing) -> tuple[_Members, _Members]:
    """The members of the record that was read and of its `dynamodb`; none where the change is new."""
    if not out.native or out.change.meta is None:
        return {}, {}
    return envelope.read_shell(out.change.meta)


def _as_it_was(change: Change, record: _Members, body: _Members, options: YdbDynamodbWrite) -> bytes:
    if body.get("Keys") == b"null":
        body["Keys"] = _bytes(change.key) or b"{}"
    for name, image in (("NewImage", change.after), ("OldImage", change.before)):
        if name in body and image is not None:
            body[name] = print_image(image, options.nulls == "omit")
    if options.region is not None:
        record["awsRegion"] = quote(options.region)
    record["dynamodb"] = envelope.shell(body)
    return envelope.shell(record)


def _new(out: Outgoing, options: YdbDynamodbWrite) -> tuple[_Members, _Members]:
    """The record of a new change, without its row."""
    number = _sequence(out)
    out.placed = (number,)
    body = {"SequenceNumber": quote(str(number).zfill(SEQUENCE_DIGITS))}
    time = _time(out, options.time_unit == "milliseconds")
    if time is not None:
        body = {"ApproximateCreationDateTime": time, **body}
    record = {
        "awsRegion": quote(options.region or ""),
        "dynamodb": b"null",
        "eventID": quote(f"{options.shard}-{number}"),
        "eventName": b"null",
        "eventSource": quote(EVENT_SOURCE),
        "eventVersion": quote(EVENT_VERSION),
    }
    return record, body


def _sequence(out: Outgoing) -> int:
    change = out.change
    if out.arrived or change.position is None:
        return out.number
    parts = position.decode(change.position)
    if len(parts) == 1 and parts[0] < 10**MOST_SEQUENCE_DIGITS:
        return parts[0]
    out.lose("position", f"a SequenceNumber is one number of up to {MOST_SEQUENCE_DIGITS} digits, this position is not")
    return out.number


def _time(out: Outgoing, milliseconds: bool) -> bytes | None:
    nanos = out.change.commit_time
    if nanos is None:
        return None
    shown = envelope.print_time(nanos, milliseconds)
    if envelope.read_time(shown) != nanos:
        out.lose("commit_time", f"{shown.decode()} milliseconds would not be read as the time of this change")
    return shown


def _print(record: _Members, body: _Members, view: View, options: YdbDynamodbWrite, moved_away: bool) -> bytes:
    """The record with what it shows of the row; the first half of a moved row takes an id of its own."""
    shown = {"Keys": view.keys, "NewImage": view.new_image, "OldImage": view.old_image}
    parts = {
        **{name: value for name, value in body.items() if shown.get(name, b"") is not None},
        **{name: value for name, value in shown.items() if value is not None},
        "StreamViewType": quote(view.view),
    }
    whole = {**record, "dynamodb": json_text.join(sorted(parts.items())), "eventName": quote(view.event)}
    if options.region is not None:
        whole["awsRegion"] = quote(options.region)
    if moved_away and "eventID" in whole:
        whole["eventID"] = quote(f"{json_text.string(whole['eventID'])}-moved")
    return envelope.shell(whole)
