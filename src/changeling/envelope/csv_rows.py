"""Rows of CSV that distinguish quoted fields from bare ones: bare null text is NULL, quoted it is text."""

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from changeling.model.errors import Rejected, UsageError

Field = str | None


class CsvRow(NamedTuple):
    """The fields of a row, NULL as None."""

    fields: list[Any]
    usual: bool
    """Printing the fields gives the same text again (or blanks were to be stripped, and need not be restored)."""
    quoted: Sequence[int] = ()
    """The places of those that were quoted needlessly."""


class RowStyle:
    """Splits and prints rows of one style. Raises `UsageError` if its characters contradict one another."""

    def __init__(
        self, delimiter: str, quote: str, null_text: str, escape: str | None = None, *, trim: bool = False
    ) -> None:
        if escape == quote:
            escape = None
        if len({delimiter, quote, escape}) < 3:
            raise UsageError(
                f"delimiter {delimiter!r}, quote {quote!r} and escape {escape!r} must be different characters"
            )
        if any(letter in null_text for letter in (delimiter, quote, "\n", "\r")):
            raise UsageError(f"null_text {null_text!r} cannot stand in a row without quotes: choose another")
        self.delimiter, self.quote, self.null_text = delimiter, quote, null_text
        self._escape, self._trim = escape, trim
        self.is_plain = escape is None and not trim
        """Nothing but a quote, which is doubled, has a meaning of its own."""
        d, q, e = re.escape(delimiter), re.escape(quote), re.escape(escape or "")
        escaped = rf"|{e}[\s\S]" if e else ""
        inside = rf"[^{q}{e}]*+(?:(?:{q}{q}{escaped})[^{q}{e}]*+)*+"
        self._blanks = "".join(letter for letter in " \t" if letter not in (delimiter, quote, escape))
        blanks = f"[{self._blanks}]*+" if trim else ""
        # The last alternative takes all that is left, so that no text is searched again from each of its characters.
        self._raws = re.compile(
            rf"((?:{blanks}{q}{inside}{q}{blanks}|(?!{blanks}{q})(?:[^{d}{e}]++{escaped})*+)(?={d})|[\s\S]++)(?:{d}|\Z)"
        ).findall
        self._special = re.compile(rf"[{d}{q}{e}\r\n]").search
        self._escaped = re.compile(rf"{e}([\s\S])")
        self._escaped_or_doubled = re.compile(rf"{e}([\s\S])|{q}({q})")

    def split(self, text: str) -> CsvRow:
        """The fields of a row; raises `Rejected` where a quote is never closed, or closed in the middle of a field."""
        raws: list[str] = self._raws(text + self.delimiter)
        if self.delimiter.join(raws) != text:
            raise Rejected(
                f"field {len(raws)} of the row has a quote or an escape that is not closed before the next delimiter"
            )
        raws = [raw.strip(self._blanks) for raw in raws] if self._trim else raws
        found = [None if raw == self.null_text else self._content(raw) for raw in raws]
        if self._trim or self.print(found) == text:
            return CsvRow(found, usual=True)
        pairs = enumerate(zip(raws, found, strict=True))
        quoted = [at for at, (raw, one) in pairs if raw[:1] == self.quote and not self._must_quote(one or "")]
        return CsvRow(found, usual=False, quoted=quoted)

    def print(self, fields: Sequence[Field], quoted: Collection[int] = ()) -> str:
        """The row of these fields, quoted where they must be; one that consists of an empty text is not an empty line.

        Fields at the places `quoted` are quoted even needlessly.
        """
        text = self.delimiter.join(
            [
                self.field(field) if field is None or place not in quoted else self._quoted(field)
                for place, field in enumerate(fields)
            ]
        )
        return text if text or fields[0] is None else self.quote * 2

    def field(self, field: Field) -> str:
        """A field among others, quoted where it must be."""
        return self.null_text if field is None else self._quoted(field) if self._must_quote(field) else field

    def _content(self, raw: str) -> str:
        is_quoted, quote = raw[:1] == self.quote, self.quote
        if self._escape is None:
            return raw[1:-1].replace(quote * 2, quote) if is_quoted else raw
        return self._escaped_or_doubled.sub(r"\1\2", raw[1:-1]) if is_quoted else self._escaped.sub(r"\1", raw)

    def _must_quote(self, field: str) -> bool:
        return field == self.null_text or self._special(field) is not None

    def _quoted(self, text: str) -> str:
        quote, escape = self.quote, self._escape
        if escape is None:
            inside = text.replace(quote, quote + quote)
        else:
            inside = text.replace(escape, escape + escape).replace(quote, escape + quote)
        return f"{quote}{inside}{quote}"
