"""Rows of CSV that distinguish quoted fields from bare ones: bare null text is NULL, quoted it is text."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from changeling.model.errors import Rejected, UsageError

Field = str | None


class Row(NamedTuple):
    """The fields of a row, NULL as None."""

    fields: list[Field]
    usual: bool
    """Printing the fields gives the same text again (or blanks were to be stripped, and need not be restored)."""


class RowStyle:
    """Splits and prints rows of one style. Raises `UsageError` if its characters contradict one another."""

    def __init__(self, delimiter: str, quote: str, escape: str | None, null_text: str, *, trim: bool = False) -> None:
        if escape == quote:
            escape = None
        if len({delimiter, quote, escape}) < 3:
            raise UsageError(
                f"delimiter {delimiter!r}, quote {quote!r} and escape {escape!r} must be different characters"
            )
        if any(letter in null_text for letter in (delimiter, quote, "\n", "\r")):
            raise UsageError(f"null_text {null_text!r} cannot stand in a row without quotes: choose another")
        self._delimiter, self._quote, self._escape = delimiter, quote, escape
        self._null_text, self._trim = null_text, trim
        d, q, e = re.escape(delimiter), re.escape(quote), re.escape(escape or "")
        escaped = rf"|{e}[\s\S]" if e else ""
        inside = rf"[^{q}{e}]*+(?:(?:{q}{q}{escaped})[^{q}{e}]*+)*+"
        self._blanks = "".join(letter for letter in " \t" if letter not in (delimiter, quote, escape))
        blanks = f"[{self._blanks}]*+" if trim else ""
        # The last alternative takes all that is left, so that no text is searched again from each of its characters.
        self._usual = re.compile(rf"((?:{q}{inside}{q}|[^{d}{q}\r\n]*+)(?={d})|[\s\S]++)(?:{d}|\Z)").findall
        self._any = re.compile(
            rf"((?:{blanks}{q}{inside}{q}{blanks}|(?!{blanks}{q})(?:[^{d}{e}]++{escaped})*+)(?={d})|[\s\S]++)(?:{d}|\Z)"
        ).findall
        self._must_quote = re.compile(rf"[{d}{q}{e}\r\n]").search
        self._escaped = re.compile(rf"{e}([\s\S])")
        self._escaped_or_doubled = re.compile(rf"{e}([\s\S])|{q}({q})")

    def split(self, text: str) -> Row:
        """The fields of a row; raises `Rejected` where a quote is never closed, or closed in the middle of a field."""
        if self._trim or self._escape is not None:
            found = self._fields(self._raws(text))
            return Row(found, self._trim or self.print(found) == text)
        delimiter, null = self._delimiter, self._null_text
        first = text.find(self._quote)
        # Fields in front of the first quote need no closer look: in a realtime row those are all columns, mostly.
        plain = text if first < 0 else text[: first - 1] if text[:first].endswith(delimiter) else ""
        usual = "\n" not in plain and "\r" not in plain
        fields: list[Field] = [None if raw == null else raw for raw in plain.split(delimiter)] if plain else []
        if not text:
            return Row([None], True) if null == "" else Row([""], False)
        if first < 0:
            return Row(fields, usual)
        rest = text[len(plain) + 1 :] if plain else text
        raws = self._usual(rest + delimiter)
        if delimiter.join(raws) != rest:
            return Row(fields + self._fields(self._raws(rest, len(fields))), False)
        quoted = self._fields(raws)
        for raw, field in zip(raws, quoted, strict=True):
            if raw[:1] == self._quote and field != null and not self._must_quote(field or ""):
                usual = text == self._quote * 2
        return Row(fields + quoted, usual)

    def print(self, fields: Sequence[Field]) -> str:
        """The row of these fields, quoted where they must be; one that consists of an empty text is not an empty line."""
        null, must_quote = self._null_text, self._must_quote
        text = self._delimiter.join(
            [
                null if field is None else self._quoted(field) if field == null or must_quote(field) else field
                for field in fields
            ]
        )
        return text if text or fields[0] is None else self._quote * 2

    def _raws(self, text: str, before: int = 0) -> list[str]:
        raws: list[str] = self._any(text + self._delimiter)
        if self._delimiter.join(raws) != text:
            raise Rejected(
                f"field {before + len(raws)} of the row has a quote or an escape that is not closed before the next delimiter"
            )
        return raws

    def _fields(self, raws: list[str]) -> list[Field]:
        if self._trim:
            raws = [raw.strip(self._blanks) for raw in raws]
        null, quote = self._null_text, self._quote
        if self._escape is not None:
            return [None if raw == null else self._unescaped(raw) for raw in raws]
        return [
            None if raw == null else raw if raw[:1] != quote else raw[1:-1].replace(quote + quote, quote)
            for raw in raws
        ]

    def _unescaped(self, raw: str) -> str:
        if raw[:1] != self._quote:
            return self._escaped.sub(r"\1", raw)
        return self._escaped_or_doubled.sub(r"\1\2", raw[1:-1])

    def _quoted(self, text: str) -> str:
        quote, escape = self._quote, self._escape
        if escape is None:
            inside = text.replace(quote, quote + quote)
        else:
            inside = text.replace(escape, escape + escape).replace(quote, escape + quote)
        return f"{quote}{inside}{quote}"
