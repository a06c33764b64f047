"""DataWorks' row values: JSON has numbers and booleans, CSV has texts, and both spell all else as canonical text."""

from changeling.formats.nested_text import NESTED, NestedAsText, from_text

TYPES = NestedAsText(read={"json": from_text}, write=NESTED)
