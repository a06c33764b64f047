"""How the records of a format stand in a file."""

from dataclasses import dataclass
from typing import TypeAlias

HEADER = "changeling.header"
"""The record header that holds the first row of a CSV file: readers set it, and writers put it at the top of a file."""

COLUMNS = "changeling.columns"
"""The record header of a CSV row whose file has no header: what it would be. Writers refuse rows that need two."""


@dataclass(frozen=True)
class JsonValues:
    """JSON values: lines, pretty-printed, concatenated; with `arrays`, the items of an array are the records."""

    arrays: bool = True


@dataclass(frozen=True)
class CsvRows:
    """Rows of CSV, whose quoted fields may hold line ends; with `header`, the first row of a file names the columns."""

    delimiter: str = ","
    quote: str = '"'
    escape: str | None = None
    """The letter that makes the next one plain; None: a quote is doubled."""
    header: bool = True
    usual_header: bytes | None = None
    """A first row that reads so is a header, also where none is expected."""


@dataclass(frozen=True)
class JsonOrCsv:
    """Whichever of the two a file's first letter shows: an object or an array is JSON, anything else is CSV."""

    json: JsonValues
    csv: CsvRows


Framing: TypeAlias = JsonValues | CsvRows | JsonOrCsv
