"""Changes into stream records, in the shape that they had, or as a YDB changefeed prints them."""

import functools
from collections.abc import Sequence
from typing import Literal

from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.rows import by_rows
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats.format import Outgoing
from changeling.formats.key_changes import rows_of
from changeling.formats.ydb_dynamodb import envelope
from changeling.formats.ydb_dynamodb.envelope import (
    BATCH,
    EVENT_SOURCE,
    EVENT_VERSION,
    MOST_SEQUENCE_DIGITS,
    SEQUENCE_DIGITS,
)
from changeling.formats.ydb_dynamodb.images import print_image
from changeling.formats.ydb_dynamodb.views import View, same_key_value, view_of
from changeling.formats.ydb_json.envelope import Mode
from changeling.formats.ydb_json.topic import ChangefeedWrite, topic_of
from changeling.model import json_text
from changeling.model.json_text import quote
from changeling.model.operation import ROW_OPERATIONS


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


def writer(options: YdbDynamodbWrite) -> Writer:
    """A function from a change to its record, or to two where it moves its row to another key."""
    mode, omit_nulls = Mode.named(options.mode), options.nulls == "omit"
    topic_of_table = functools.partial(topic_of, feed=options.feed or "feed")

    def write(cells: Cells, out: Cell) -> Sequence[RecordCells]:
        change, record = out.change, kept(cells, out)
        topic = cells.each(topic_of_table, change.table)
        if not cells.only(cells.one_of(change.op, ROW_OPERATIONS)):
            key = cells.text(record["messageKey"]) if "messageKey" in record else change.key
            return [RecordCells(None, key, topic)]
        record.pop(BATCH, None)
        if "dynamodb" in record and mode is None:
            return [RecordCells(_original_value(cells, change, record, options), change.key, topic)]
        if "dynamodb" in record:
            cells.alone()
        body = json_text.members(record["dynamodb"]) if "dynamodb" in record else {}
        if not body:
            record, body = _new(cells, out, options)
        made = []
        rows = [change] if cells.many else rows_of(out, same_key_value)
        for row in rows:
            out.change = row
            view = View(*by_rows(cells, row, functools.partial(view_of, out, mode, omit_nulls)))
            moved_away = row is not rows[-1]
            made.append(RecordCells(_print(cells, record, body, view, options, moved_away), view.keys, topic))
        return made

    return write


def _original_value(cells: Cells, change: Cell, record: Members, options: YdbDynamodbWrite) -> Cell:
    body = cells.members(record["dynamodb"])
    filling = {}
    if "Keys" in body:
        noted = cells.equal(body["Keys"], b"null")
        filling["Keys"] = cells.where(noted, cells.first(change.key, b"{}"), None)
    for name, image in (("NewImage", change.after), ("OldImage", change.before)):
        if name in body:
            filling[name] = print_image(cells, image, options.nulls == "omit")
    filled = {**record, "dynamodb": cells.filled_shell(body, filling)}
    return cells.shell(filled if options.region is None else {**filled, "awsRegion": quote(options.region)})


def _new(cells: Cells, out: Cell, options: YdbDynamodbWrite) -> tuple[Members, Members]:
    """The record of a new change, without its row."""
    number = _sequence(cells, out)
    out.placed = (number,)
    body = {
        "ApproximateCreationDateTime": _time(cells, out, options.time_unit == "milliseconds"),
        "SequenceNumber": cells.joined(b'"', cells.padded(number, SEQUENCE_DIGITS), b'"'),
    }
    record = {
        "awsRegion": quote(options.region or ""),
        "dynamodb": b"null",
        "eventID": cells.joined(b'"', quote(options.shard)[1:-1], b"-", cells.digits(number), b'"'),
        "eventName": b"null",
        "eventSource": quote(EVENT_SOURCE),
        "eventVersion": quote(EVENT_VERSION),
    }
    return record, body


def _sequence(cells: Cells, out: Cell) -> Cell:
    text = cells.where(cells.mask(out.arrived), None, out.change.position)
    (number,) = cells.components(text, 1)
    fits = cells.less(number, 10**MOST_SEQUENCE_DIGITS)
    cells.lose(
        out,
        cells.present(text) & ~fits,
        "position",
        f"a SequenceNumber is one number of up to {MOST_SEQUENCE_DIGITS} digits, this position is not",
    )
    return cells.where(fits, number, out.running)


def _time(cells: Cells, out: Cell, milliseconds: bool) -> Cell:
    time = out.change.commit_time
    if milliseconds:
        cells.alone()
    return cells.each_row(functools.partial(_print_time, out, milliseconds), time)


def _print_time(out: Outgoing, milliseconds: bool, nanos: int | None) -> bytes | None:
    if nanos is None:
        return None
    shown = envelope.print_time(nanos, milliseconds)
    # Seconds are always read as such.
    if milliseconds and envelope.read_time(shown) != nanos:
        out.lose("commit_time", f"{shown.decode()} milliseconds would not be read as the time of this change")
    return shown


def _print(
    cells: Cells, record: Members, body: Members, view: View, options: YdbDynamodbWrite, moved_away: bool
) -> Cell:
    """The record with what it shows of the row; the first half of a moved row takes an id of its own."""
    shown = {"Keys": view.keys, "NewImage": view.new_image, "OldImage": view.old_image, "StreamViewType": view.view}
    parts = cells.sparse(dict(sorted({**body, **shown}.items())))
    whole = {**record, "dynamodb": parts, "eventName": view.event}
    if options.region is not None:
        whole["awsRegion"] = quote(options.region)
    if moved_away and "eventID" in whole:
        whole["eventID"] = quote(f"{json_text.string(whole['eventID'])}-moved")
    return cells.shell(whole)
