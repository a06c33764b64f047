"""What a reader and a writer of Arcion's CSV may be told."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from changeling.formats.options import ReadOptions, WriteOptions

Letter: TypeAlias = Annotated[str, Meta(pattern=r"^[\x01-\x09\x0b\x0c\x0e-\x7f]\Z")]
"""One letter of ASCII that does not end a line."""


class ArcionCsvRead(ReadOptions, frozen=True, kw_only=True):
    """What a reader of Arcion's CSV may be told."""

    mode: Literal["snapshot", "full", "realtime"] = "realtime"
    """Which mode wrote the rows: `snapshot` has the columns alone, `full` has the layout of `realtime`."""
    header: bool | None = None
    """Whether a file begins with a row of names; where nothing is said, it does when no columns are given."""
    delimiter: Letter = ","
    """What stands between fields."""
    quote: Letter = '"'
    """What stands around a field; inside of one it is doubled."""
    escape: Letter | None = None
    """What makes the next letter plain."""
    null_text: str = "NULL"
    """The field that is NULL where it stands without quotes."""
    trim: bool = False
    """Strips blanks around fields; those inside of quotes stay."""


class ArcionCsvWrite(WriteOptions, frozen=True, kw_only=True):
    """What a writer of Arcion's CSV may be told."""

    mode: Literal["snapshot", "full", "realtime"] | None = None
    """Which layout to write; without a choice rows keep the one they were read in, others are `realtime`."""
    include_header: bool = True
    """Whether a file begins with a row of names."""
    delimiter: Letter = ","
    """What stands between fields."""
    quote: Letter = '"'
    """What stands around a field where it must."""
    escape: Letter | None = None
    """What makes a quote inside of quotes plain; without one, the quote is doubled."""
    null_text: str = "NULL"
    """How NULL is written; a text that looks the same is quoted."""
    before_image: Literal["KEY", "ALL"] | None = None
    """What is OLD: the key, or the whole row; as the change has it where nothing is said."""
    after_image: Literal["UPDATED", "ALL"] | None = None
    """What is NEW: what an update changed, or the whole row; as the change has it where nothing is said."""
