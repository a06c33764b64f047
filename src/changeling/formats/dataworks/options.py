"""Options of a reader and a writer of DataWorks' rows."""

from typing import Annotated, Literal

from msgspec import Meta

from changeling.formats.options import ReadOptions, WriteOptions

_Letter = Annotated[str, Meta(pattern=r"^[\x01-\x09\x0b\x0c\x0e-\x7f]\Z")]


class DataworksRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of DataWorks' rows."""

    header: bool = True
    """CSV files begin with a row of names; without one, the schema's columns follow the five metadata fields."""
    delimiter: _Letter = ","
    """The delimiter of the fields of a CSV row."""
    quote: _Letter = '"'
    """The quote around a CSV field; inside it is doubled."""
    null_text: str = ""
    """The CSV field that is NULL when it is not quoted."""


class DataworksWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a writer of DataWorks' rows."""

    layout: Literal["json", "csv"] | None = None
    """JSON objects or rows of CSV; without a choice rows stay in the layout they were read in, others become JSON."""
    source_table: bool = False
    """Adds `_source_table_`, the table's name, after the five metadata fields."""
    start: Annotated[int, Meta(ge=0)] = 1
    """The first sequence id given to changes of other dialects; each change takes the next."""
    delimiter: _Letter = ","
    """The delimiter of the fields of a CSV row."""
    quote: _Letter = '"'
    """The quote around a CSV field that needs one."""
    null_text: str = ""
    """How NULL is written in CSV; a text that looks the same is quoted."""

    @property
    def names_table(self) -> bool:
        """`_source_table_` names it."""
        return self.source_table
