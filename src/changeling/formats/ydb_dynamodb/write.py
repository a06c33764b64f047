"""Changes into stream records, in the shape that they had, or as a YDB changefeed prints them."""

import functools
import re
from collections.abc import Sequence
from typing import Literal

from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.rows import ImageColumns, by_rows
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats.changefeed import ChangefeedWrite, Mode
from changeling.formats.format import Outgoing
from changeling.formats.key_changes import rows_of
from changeling.formats.ydb_dynamodb import types
from changeling.formats.ydb_dynamodb.read import BATCH, EVENT_SOURCE, read_time
from changeling.model import json_text, times
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import NEW_ROW_OPERATIONS, ROW_OPERATIONS, Image, Operation

SEQUENCE_DIGITS = 21
"""A written SequenceNumber is padded to this many digits; Amazon's have up to 40."""
_MAX_SEQUENCE_DIGITS = 40
_MAX_KEY_COLUMNS = 2
_OF_ROWS = ("Keys", "StreamViewType", "NewImage", "OldImage")
"""The members of `dynamodb` that say something of the row."""
_NUMBERS = re.compile(rb'"N":"([^"]*)"')
"""Every number of a text: inside of a string the quotes around the letter would be escaped."""
_UNUSUAL_NUMBER = r'(?s).*"N":"(?:[^"]{38,}|[^"]*[^-0-9."][^"]*)".*'
"""A value with a number that is long, or has an exponent, or is none."""
_PLAIN_KEY_VALUE = r'\{"(?:[SB]":"[^"\\\x00-\x1f]*"|N":"(?:0|-?[1-9][0-9]{0,36})")\}'
"""Values of a key that are their own canonical form."""
_KEY_KIND = r'(?s)\{"[SBN]":.*'
"""Values of the kinds that a key can have."""


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
    mode = Mode.named(options.mode)

    def write(cells: Cells, out: Cell) -> Sequence[RecordCells]:
        change, record = out.change, kept(cells, out)
        topic = cells.each(options.topic_of, change.table)
        if not cells.usually(cells.one_of(change.op, ROW_OPERATIONS)):
            key = cells.text(record["messageKey"]) if "messageKey" in record else change.key
            return [RecordCells(None, key, topic)]
        record.pop(BATCH, None)
        if options.region is not None:
            record["awsRegion"] = quote(options.region)
        if "dynamodb" in record and mode is None:
            return [RecordCells(_original_value(cells, change, record, options.nulls), change.key, topic)]
        if "dynamodb" in record:
            body = cells.members(record["dynamodb"])
        else:
            record, body = _new(cells, out, options)
        made = []
        rows = [change] if cells.is_columnar else rows_of(out, _same_key_value)
        for row in rows:
            out.change = row
            if mode is not None:
                _check_images(cells, out, mode)
            event, *shown = by_rows(cells, row, functools.partial(_shown, out, options))
            members = {**body, **dict(zip(_OF_ROWS, shown, strict=True))}
            whole = {**record, "dynamodb": cells.sparse(dict(sorted(members.items()))), "eventName": event}
            if row is not rows[-1] and "eventID" in whole:
                # The first half of a moved row takes an id of its own.
                whole["eventID"] = quote(f"{json_text.string(whole['eventID'])}-moved")
            made.append(RecordCells(cells.json_object(whole), shown[0], topic))
        return made

    return write


def _original_value(cells: Cells, change: Cell, record: Members, nulls: str) -> Cell:
    body = cells.members(record["dynamodb"])
    filling = {
        # Keys that are not canonical are in the shell.
        "Keys": cells.where(cells.equal(body.get("Keys"), b"null"), cells.first(change.key, b"{}"), None),
        "NewImage": _original_image(cells, change.after, nulls),
        "OldImage": _original_image(cells, change.before, nulls),
    }
    return cells.json_object({**record, "dynamodb": cells.refilled(body, filling)})


def _original_image(cells: Cells, image: Cell, nulls: str) -> Cell:
    with_nulls = cells.contains(image, [b"null"])
    if not cells.any(with_nulls):
        return image
    (shown,) = cells.by_shape(lambda part, row: [_print(part, row, nulls) if row else None], (image,))
    return cells.where(with_nulls, shown, image)


def _print(cells: Cells, columns: Members, nulls: str) -> Cell:
    """The image of these columns, each an attribute value or `null`."""
    if nulls == "omit":
        cells.one_by_one()
        return cells.json_object({name: value for name, value in columns.items() if value not in (b"null", types.NULL)})
    return cells.json_object(
        {name: cells.where(cells.equal(value, b"null"), types.NULL, value) for name, value in columns.items()}
    )


def _new(cells: Cells, out: Cell, options: YdbDynamodbWrite) -> tuple[Members, Members]:
    """The record of a new change, without its row."""
    given = cells.where(cells.mask(out.arrived), None, out.change.position)
    (number,) = cells.components(given, 1)
    fits = cells.less(number, 10**_MAX_SEQUENCE_DIGITS)
    why = f"a SequenceNumber is one number of up to {_MAX_SEQUENCE_DIGITS} digits, this position is not"
    cells.lose(out, cells.present(given) & ~fits, "position", why)
    number = cells.where(fits, number, out.running)
    out.placed = (number,)
    if options.time_unit == "milliseconds":
        cells.one_by_one()
    body = {
        "ApproximateCreationDateTime": cells.each_row(
            functools.partial(_print_time, out, options.time_unit), out.change.commit_time
        ),
        "SequenceNumber": cells.joined(b'"', cells.padded(number, SEQUENCE_DIGITS), b'"'),
    }
    record = {
        "awsRegion": quote(options.region or ""),
        "dynamodb": b"null",
        "eventID": cells.joined(b'"', quote(options.shard)[1:-1], b"-", cells.int_json(number), b'"'),
        "eventName": b"null",
        "eventSource": EVENT_SOURCE,
        "eventVersion": b'"1.0"',
    }
    return record, body


def _print_time(out: Outgoing, unit: str, nanos: int | None) -> bytes | None:
    """A creation time as seconds with the fraction that is there, or as whole milliseconds."""
    if nanos is None:
        return None
    if unit == "milliseconds":
        shown = b"%d" % (nanos // times.NANOS_PER_MILLI)
        # Seconds are always read as such.
        if read_time(shown) != nanos:
            out.lose("commit_time", f"{shown.decode()} milliseconds would not be read as the time of this change")
        return shown
    seconds, rest = divmod(abs(nanos), times.NANOS_PER_SECOND)
    return f"{'-' if nanos < 0 else ''}{seconds}{times.fraction(rest)}".encode()


def _same_key_value(one: bytes, other: bytes) -> bool:
    """Whether two values of a key column are one: numbers may differ in their spelling."""
    return one == other or (b"null" not in (one, other) and _spelled(one) == _spelled(other))


def _spelled(raw: bytes) -> bytes:
    value = types.read(raw)
    return json_text.canonical_number(value.N.encode()) if isinstance(value.N, str) else json_text.canonical(raw)


def _check_images(cells: Cells, out: Cell, mode: Mode) -> None:
    """An image that the mode requires, and the change does not have, is a loss."""
    change = out.change
    old = cells.equal(change.before_image, Image.FULL) & cells.present(change.before)
    new = cells.equal(change.after_image, Image.FULL) & cells.present(change.after)
    new |= cells.equal(change.after_image, Image.PARTIAL) & old
    if mode.has_new_image:
        why = f"the mode {mode} shows the full row, and this change does not have it"
        cells.lose(out, ~new & ~cells.equal(change.op, Operation.DELETE), "after", why)
    if mode.has_old_image:
        why = f"the mode {mode} shows the row before the change, and this change does not have it"
        cells.lose(out, ~old & ~cells.one_of(change.op, NEW_ROW_OPERATIONS), "before", why)


def _shown(out: Cell, options: YdbDynamodbWrite, cells: Cells, row: ImageColumns) -> Sequence[Cell]:
    """The event, the keys, the view, and the images: all that the changes have, or what a mode requires."""
    op, mode, key = row.kind.op, Mode.named(options.mode), row.key or {}
    new, old = _after(row), row.before if row.kind.before_image is Image.FULL else None
    if mode is None:
        view = _widest(op, new is not None, old is not None)
    else:
        view = Mode.KEYS_ONLY if mode is Mode.UPDATES else mode
    if cells.is_columnar and row.before is not None and op is not Operation.DELETE:
        for name, value in key.items():
            # A row that moves to another key is two records.
            cells.usually(cells.equal(row.before.get(name, value), value))
    keys = key if out.native else _keys(cells, out, key)
    images = [
        _image(cells, out, _with_key(cells, image, key, keys), options.nulls) if image is not None and wanted else None
        for image, wanted in ((new, view.has_new_image), (old, view.has_old_image))
    ]
    canonical = {
        name: value if cells.usually(cells.matches(value, _PLAIN_KEY_VALUE)) else types.key_value(value)
        for name, value in keys.items()
    }
    return quote(_event(op, view, old is not None)), cells.json_object(canonical), quote(view), *images


def _after(row: ImageColumns) -> Members | None:
    """The full row after the change. A part of it would turn every other column into NULL: it is not written."""
    if row.kind.op is Operation.DELETE:
        return None
    if row.kind.after_image is Image.PARTIAL and row.kind.before_image is Image.FULL and row.before is not None:
        return {**row.before, **(row.after or {})}
    return row.after if row.kind.after_image is Image.FULL else None


def _widest(op: Operation, has_new: bool, has_old: bool) -> Mode:
    """The mode that shows just what the change has; only one mode distinguishes an insert from an update."""
    if has_new and (has_old or op is Operation.INSERT):
        return Mode.NEW_AND_OLD_IMAGES
    return Mode.NEW_IMAGE if has_new else Mode.OLD_IMAGE if has_old else Mode.KEYS_ONLY


def _event(op: Operation, view: Mode, has_old: bool) -> str:
    if op is Operation.DELETE:
        return "REMOVE"
    return "INSERT" if op in NEW_ROW_OPERATIONS and view is Mode.NEW_AND_OLD_IMAGES and not has_old else "MODIFY"


def _keys(cells: Cells, out: Cell, key: Members) -> Members:
    """The key columns, without what DynamoDB cannot express in a key."""
    if len(key) > _MAX_KEY_COLUMNS:
        cells.one_by_one()
        out.lose("composite-key", f"a document has a key of one or two columns, this one has {len(key)}")
    return {name: _key_column(cells, out, name, value) for name, value in key.items()}


def _key_column(cells: Cells, out: Cell, name: str, value: Cell) -> Cell:
    if cells.usually(cells.matches(value, _PLAIN_KEY_VALUE)):
        return value
    kind = "NULL" if value == b"null" else types.kind_of(types.read(value))
    if kind not in types.KEY_KINDS:
        out.lose("types", f"a document's key is text, number or binary; key column {name!r} is of kind {kind}")
        return _as_text(value)
    return _storable(out, value)


def _with_key(cells: Cells, image: Members, key: Members, keys: Members) -> Members:
    """An image with those key columns that it lacks, or has in a form that a key cannot have, such as MongoDB's `{"$numberLong":"5"}`."""
    held = {
        name: value
        for name, value in keys.items()
        if name not in image
        or (value is not key[name] and value != key[name])
        or not cells.usually(cells.matches(image[name], _KEY_KIND))
    }
    return {**image, **held}


def _image(cells: Cells, out: Cell, columns: Members, nulls: str) -> Cell:
    """The image of these columns, without numbers and documents that DynamoDB does not have: they become text, if the user drops the types."""
    text = _print(cells, columns, nulls)
    if out.native:
        return text
    # A text shorter than two brackets a level cannot be nested too deep.
    large = ~cells.less(cells.size(text), 2 * (json_text.DEPTH_LIMIT - 2))
    unfit = cells.holds(_is_deep, text) if cells.any(large) else large
    for value in columns.values():
        unfit |= cells.matches(value, _UNUSUAL_NUMBER)
    if cells.usually(~unfit):
        return text
    if _is_deep(text):
        limit = json_text.DEPTH_LIMIT
        out.lose("types", f"attribute values nest twice as deep as JSON, a record {limit} levels at most")
        flat = {name: _as_text(value) if _is_deep(b"[%b]" % value) else value for name, value in columns.items()}
        text = _print(cells, flat, nulls)
    return _storable(out, text)


def _is_deep(image: bytes) -> bool:
    """Whether an image nests too deep for a record and its `dynamodb` to enclose it."""
    try:
        json_text.check_depth(b"[[%b]]" % image)
    except Rejected:
        return True
    return False


def _storable(out: Outgoing, text: bytes) -> bytes:
    """The same text without numbers that DynamoDB does not have."""
    unfit = {found for found in _NUMBERS.findall(text) if not types.is_storable_number(found.decode())}
    if not unfit:
        return text
    shown = min(unfit)[:60].decode()
    out.lose("types", f"a number has at most 38 digits, up to 9.9E+125, and is never NaN; this one is {shown}")
    return _NUMBERS.sub(lambda match: b'"S":"%b"' % match[1] if match[1] in unfit else match[0], text)


def _as_text(value: bytes) -> bytes:
    plain = b"null" if value == b"null" else types.plain(types.read(value))
    return b'{"S":%b}' % quote(plain.decode())
