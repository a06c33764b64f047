"""How the records of a format are framed in a file."""

from dataclasses import dataclass
from typing import TypeAlias

HEADER = "changeling.header"
"""The record header that contains the first row of a CSV file: readers set it, writers put it at the top of a file."""

COLUMNS = "changeling.columns"
"""The record header with the columns of a CSV row whose file has no header. Writers refuse rows that need two."""


@dataclass(frozen=True)
class JsonValues:
    """JSON values: lines, pretty-printed, concatenated; with `arrays`, the items of an array are the records."""

    arrays: bool = True


@dataclass(frozen=True)
class CsvRows:
    """Rows of CSV, whose quoted fields may contain line ends; with `header`, the first row of a file names the columns."""

    delimiter: str = ","
    quote: str = '"'
    escape: str | None = None
    """The character that escapes the next one; None: a quote is doubled."""
    header: bool = True
    usual_header: bytes | None = None
    """A first row equal to this is a header, even where none is expected."""


@dataclass(frozen=True)
class JsonOrCsv:
    """JSON or CSV by a file's first character: an object or an array is JSON, anything else is CSV."""

    json: JsonValues
    csv: CsvRows


Framing: TypeAlias = JsonValues | CsvRows | JsonOrCsv
