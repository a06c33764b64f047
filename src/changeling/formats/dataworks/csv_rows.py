"""Rows of CSV: NULL is a bare word (an empty field by default), and the same characters in quotes are a text."""

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from changeling.model.errors import Rejected, UsageError

Field = str | None


class Row(NamedTuple):
    """The fields of a row, NULL as None, and the places of those that were quoted needlessly."""

    fields: list[Field]
    quoted: list[int]


class CsvStyle:
    """Reads and prints rows in one style."""

    def __init__(self, delimiter: str, quote: str, null_text: str) -> None:
        if delimiter == quote:
            raise UsageError(f"the delimiter and the quote cannot both be {quote!r}")
        if any(letter in null_text for letter in (delimiter, quote, "\n", "\r")):
            raise UsageError(f"null_text {null_text!r} must be usable without quotes")
        self._delimiter, self._quote, self._null_text = delimiter, quote, null_text
        d, q = re.escape(delimiter), re.escape(quote)
        self._field = re.compile(f"(?:{q}((?:[^{q}]++|{q}{q})*+){q}|((?!{q})[^{d}]*+))({d}|\\Z)")
        self._needs_quotes = re.compile(f"[{d}{q}\\r\\n]")

    def parse(self, raw: bytes) -> Row:
        """Splits a row; raises `Rejected` where a quote is never closed, or closed in the middle of a field."""
        text = raw.decode()
        if self._quote not in text:
            fields = text.split(self._delimiter)
            null = self._null_text
            return Row([None if field == null else field for field in fields] if null in fields else [*fields], [])
        return self._parse_quoted(text)

    def _parse_quoted(self, text: str) -> Row:
        fields: list[Field] = []
        quoted: list[int] = []
        at, delimited = 0, True
        while delimited:
            match = self._field.match(text, at)
            if match is None:
                raise Rejected(f"field {len(fields) + 1} of the row begins with a quote that is not closed properly")
            inner, plain, end = match.groups()
            if inner is None:
                fields.append(None if plain == self._null_text else plain)
            else:
                inner = inner.replace(self._quote * 2, self._quote)
                if not self._must_quote(inner):
                    quoted.append(len(fields))
                fields.append(inner)
            at, delimited = match.end(), bool(end)
        return Row(fields, quoted)

    def print(self, fields: Iterable[Field], quoted: Collection[int] = ()) -> bytes:
        """The row of these fields; those at the places `quoted` are quoted even needlessly."""
        return self._delimiter.join(
            self._null_text if field is None else self._text(field, place in quoted)
            for place, field in enumerate(fields)
        ).encode()

    def _text(self, field: str, quoted: bool) -> str:
        if not (quoted or self._must_quote(field)):
            return field
        return f"{self._quote}{field.replace(self._quote, self._quote * 2)}{self._quote}"

    def _must_quote(self, field: str) -> bool:
        return field == self._null_text or self._needs_quotes.search(field) is not None
