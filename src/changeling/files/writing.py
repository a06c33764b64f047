"""Writes wire records to an output, one a line."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.files import kcat
from changeling.files.output import Output
from changeling.files.reading import Carrier
from changeling.formats.framing import COLUMNS, HEADER
from changeling.model import json_text
from changeling.model.errors import CannotCarry, LossError
from changeling.model.printable import printable


def write(batches: Iterable[pa.RecordBatch], output: Output, carrier: Carrier = "plain") -> None:
    """Writes batches of layout `RECORDS`.

    Plain: only the values, one a line (JSON with line breaks is written without them), after their header if they have one.
    Raises `LossError` for what cannot be written: a tombstone or a second header in a plain file, bytes that are not text with
    kcat.
    """
    printer = kcat.Printer()
    header: bytes | None = None
    for number, batch in enumerate(batch for batch in batches if batch.num_rows):
        if carrier == "kcat":
            lines = _messages(printer, batch)
        else:
            found, shown = _header(batch)
            if number and found != header:
                raise LossError(two_headers(header, found))
            header = found
            lines = _values(batch.column("value"))
            if number == 0 and header is not None and shown:
                lines.insert(0, header)
        output.write(b"\n".join(lines) + b"\n")


def _messages(printer: kcat.Printer, batch: pa.RecordBatch) -> list[bytes]:
    try:
        return list(printer.lines(batch))
    except CannotCarry as lack:
        raise LossError(str(lack)) from None


def _header(batch: pa.RecordBatch) -> tuple[bytes | None, bool]:
    """The one header that all records of a batch have, and whether it is to be written."""
    column = batch.column("headers")
    if column.null_count == len(column):
        return None, False
    distinct = headers_of(batch)
    if len(distinct) > 1:
        raise LossError(two_headers(*distinct[:2]))
    return distinct[0], _columns(column[0].as_py() or ())[1]


def headers_of(batch: pa.RecordBatch) -> list[bytes | None]:
    """The different headers of CSV that the records of a batch need, in order."""
    column = batch.column("headers")
    if column.null_count == len(column):
        return []
    return list(dict.fromkeys(_columns(pairs or ())[0] for pairs in column.to_pylist()))


def _columns(pairs: Iterable[dict[str, Any]]) -> tuple[bytes | None, bool]:
    for pair in pairs:
        if pair["name"] in (HEADER, COLUMNS):
            return pair["value"], pair["name"] == HEADER
    return None, False


def two_headers(one: bytes | None, other: bytes | None) -> str:
    """Why records with these headers cannot be written to one file, and what to do."""
    shown = [printable((row or b"no header").decode(errors="replace")) for row in (one, other)]
    return (
        "a file of CSV has one header, and these changes need two: give --columns with all of them, or convert each table"
        f" separately\n  {shown[0]}\n  {shown[1]}"
    )


def _values(values: pa.Array) -> list[bytes]:
    if values.null_count:
        raise LossError("message: a tombstone has no value, and a plain file contains values only; use --carrier kcat")
    texts: list[bytes] = values.to_pylist()
    if pc.any(pc.match_substring(values, "\n")).as_py():
        return [_one_line(text) if b"\n" in text else text for text in texts]
    return texts


def _one_line(text: bytes) -> bytes:
    """JSON in one line; rows of CSV may contain line breaks, and stay as they are."""
    if text.lstrip()[:1] not in (b"{", b"["):
        return text
    try:
        return json_text.compact(text)
    except (msgspec.DecodeError, RecursionError):
        raise LossError("a value has line breaks and is not JSON, so it would not be read as one record") from None
