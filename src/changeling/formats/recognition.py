"""Which dialect records are of, by the members of their envelopes and the fields of their rows: nothing is decoded."""

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from changeling.formats import registry
from changeling.formats.format import Format, Sign
from changeling.formats.framing import CsvRows

_ABSENT = object()
_USUAL_ROWS = CsvRows()
# Numbers of any size are kept as text: a record with one shows its dialect as well.
_decode = msgspec.json.Decoder(float_hook=str).decode


def fitting(values: Iterable[bytes | None], style: CsvRows = _USUAL_ROWS) -> list[str]:
    """The dialects that the most of these records show, sorted: none, the one, or several that look the same.

    One that yields to another does so where most of its records have the signs of both. Tombstones show nothing.
    """
    forms = [registry.get(name) for name in registry.names()]
    seen = Counter(form.name for value in values for form in forms if value is not None and _shows(form, value, style))
    left = [form.name for form in forms if not any(2 * seen[other] > seen[form.name] for other in form.yields_to)]
    most = max(seen[name] for name in left)
    return [name for name in left if 0 < most == seen[name]]


def _shows(form: Format, value: bytes, style: CsvRows) -> bool:
    if value.lstrip(b" \t\r\n\xef\xbb\xbf")[:1] in (b"{", b"["):
        record = _parsed(value)
        return any(_has(record, sign) for sign in form.signs)
    return form.row_sign is not None and form.row_sign(_fields(value, style))


def _parsed(value: bytes) -> Any:
    """The record, or the first of an array of them; None where it is not JSON."""
    try:
        found = _decode(value.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found[0] if isinstance(found, list) and found else found


def _has(record: Any, sign: Sign) -> bool:
    return all(_found(record, path) for path in sign)


def _found(record: Any, path: str) -> bool:
    names, equals, wanted = path.partition("=")
    for name in names.split("."):
        record = record.get(name, _ABSENT) if isinstance(record, dict) else _ABSENT
    return record == wanted if equals else record is not _ABSENT


def _fields(value: bytes, style: CsvRows) -> Sequence[str]:
    try:
        rows = csv.reader(
            value.decode("utf-8-sig").splitlines(keepends=True),
            delimiter=style.delimiter,
            quotechar=style.quote,
            escapechar=style.escape,
        )
        return next(rows, [])
    except (UnicodeDecodeError, csv.Error):
        return []
