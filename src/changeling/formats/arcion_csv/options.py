"""Options of a reader and a writer of Arcion's CSV."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from changeling.formats.options import ReadOptions, WriteOptions

Letter: TypeAlias = Annotated[str, Meta(pattern=r"^[\x01-\x09\x0b\x0c\x0e-\x7f]\Z")]
"""One ASCII character that does not end a line."""


class ArcionCsvRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a reader of Arcion's CSV."""

    mode: Literal["snapshot", "full", "realtime"] = "realtime"
    """Which mode wrote the rows: `snapshot` has only the columns, `full` has the layout of `realtime`."""
    header: bool | None = None
    """Whether a file begins with a row of names; by default it does if no columns are given."""
    delimiter: Letter = ","
    """The delimiter of fields."""
    quote: Letter = '"'
    """The quote around a field; inside it is doubled."""
    escape: Letter | None = None
    """The character that escapes the next one."""
    null_text: str = "NULL"
    """The field that is NULL when it is not quoted."""
    trim: bool = False
    """Strips blanks around fields; those inside of quotes stay."""


class ArcionCsvWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a writer of Arcion's CSV."""

    mode: Literal["snapshot", "full", "realtime"] | None = None
    """Which layout to write; without a choice rows keep the one they were read in, others are `realtime`."""
    include_header: bool = True
    """Whether a file begins with a row of names."""
    delimiter: Letter = ","
    """The delimiter of fields."""
    quote: Letter = '"'
    """The quote around a field that needs one."""
    escape: Letter | None = None
    """The character that escapes a quote inside of quotes; without one, the quote is doubled."""
    null_text: str = "NULL"
    """How NULL is written; a text that looks the same is quoted."""
    before_image: Literal["KEY", "ALL"] | None = None
    """What is OLD: the key, or the whole row; by default as the change has it."""
    after_image: Literal["UPDATED", "ALL"] | None = None
    """What is NEW: what an update changed, or the whole row; by default as the change has it."""
