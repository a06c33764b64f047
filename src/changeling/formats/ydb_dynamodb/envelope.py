"""A stream record on the wire: its members, its times and numbers, and the shell that keeps its shape."""

import re
from decimal import ROUND_FLOOR, Decimal, InvalidOperation

import msgspec

from changeling.model import times
from changeling.model.errors import Rejected
from changeling.model.operation import Operation

EVENT_SOURCE = "ydb:document-table"
EVENT_VERSION = "1.0"
SEQUENCE_DIGITS = 21
"""A written SequenceNumber is padded to this many digits; Amazon's have up to 40."""
MOST_SEQUENCE_DIGITS = 40
EVENTS = {b'"INSERT"': Operation.INSERT, b'"MODIFY"': Operation.UPSERT, b'"REMOVE"': Operation.DELETE}
BODY = ("ApproximateCreationDateTime", "Keys", "NewImage", "OldImage", "SequenceNumber", "SizeBytes", "StreamViewType")
"""The members of `dynamodb` in their usual order."""
BATCH = "Records"
"""The member with the records of a Lambda event or of a GetRecords answer; in a shell, what else the batch contains."""

members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode
_ARN = re.compile(r"arn:[^:]*:dynamodb:[^:]*:[^:]*:table/([^/]+)(?:/.*)?", re.DOTALL)
_UNITS = (times.NANOS_PER_SECOND, 1_000_000, 1_000, 1)
_USUAL_UNITS = {10: times.NANOS_PER_SECOND, 13: 1_000_000}
"""By the number of digits: the seconds and milliseconds of our days."""
_LIMIT = 2**63


def text(name: str, raw: msgspec.Raw | bytes) -> str:
    """The text of a member; raises `Rejected` with its name where it is another value."""
    try:
        return _text(raw)
    except msgspec.DecodeError as error:
        raise Rejected(f"`{name}`: {error}") from None


def table_of_arn(arn: str) -> str | None:
    """The table's name in the address of a table or of its stream."""
    match = _ARN.fullmatch(arn)
    return None if match is None else match[1]


def read_sequence(raw: msgspec.Raw | bytes) -> int:
    """The number that orders the records of a shard."""
    digits = text("SequenceNumber", raw)
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 99:
        raise Rejected(f"`SequenceNumber` must be digits, got {digits[:60]!r}")
    return int(digits)


def read_time(raw: bytes) -> int | None:
    """Nanoseconds of a creation time: a number in the largest unit that keeps it before 2262, or ISO-8601 text.

    Amazon counts seconds (some tools print them with a fraction or as text), YDB milliseconds, Kinesis microseconds.
    """
    if raw.isdigit() and len(raw) in _USUAL_UNITS:
        usual = int(raw) * _USUAL_UNITS[len(raw)]
        if usual < _LIMIT:
            return usual
    if raw == b"null":
        return None
    shown = text("ApproximateCreationDateTime", raw) if raw[:1] == b'"' else raw.decode()
    try:
        value = Decimal(shown)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        if raw[:1] != b'"':
            raise Rejected("`ApproximateCreationDateTime` must be a number or an ISO-8601 text")
        return times.from_units(times.parse(shown)[0], 1)
    if value.adjusted() > 20:
        raise Rejected(f"the time {shown[:60]} lies outside the years 1677 to 2262")
    for unit in _UNITS:
        nanos = (value * unit).to_integral_value(ROUND_FLOOR)
        if -_LIMIT <= nanos < _LIMIT:
            return int(nanos)
    raise Rejected(f"the time {shown[:60]} lies outside the years 1677 to 2262")


def print_time(nanos: int, milliseconds: bool) -> bytes:
    """A creation time as seconds with the fraction that is there, or as whole milliseconds."""
    if milliseconds:
        return str(nanos // 1_000_000).encode()
    seconds, rest = divmod(abs(nanos), times.NANOS_PER_SECOND)
    return f"{'-' if nanos < 0 else ''}{seconds}{times.fraction(rest)}".encode()
