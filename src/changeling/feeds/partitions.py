"""The partition of a row: by its key alone, so that all records of a row are in one partition."""

from hashlib import md5

from changeling.model import json_text
from changeling.model.canonical import text_of


def digest(key: str) -> int:
    """A number for a normalised key (a JSON array of canonical values): the first 8 bytes of the MD5 of its values.

    Each value counts with its length, as text: a column that becomes wider moves no row.
    """
    texts = (text_of(value).encode() for value in json_text.items(key))
    joined = b"".join(len(text).to_bytes(4, "big") + text for text in texts)
    return int.from_bytes(md5(joined, usedforsecurity=False).digest()[:8], "big")
