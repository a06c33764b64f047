"""How complete rows before a change are, by columns."""

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.shapes import decoded
from changeling.formats.debezium_json.images import before_image
from changeling.formats.debezium_json.message import names_of
from changeling.model.operation import Image

_columns = msgspec.json.Decoder(dict[str, msgspec.Raw])
_columns_or_none = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)


def seen_before_images(before: pa.Array, after: pa.Array, keys: pa.Array) -> pa.Array:
    """What a reader sees by the columns before and after: null is no row."""
    there = pc.is_valid(before)
    found = pc.if_else(there, pa.scalar(None, pa.string()), Image.NONE.value)
    if not found.null_count:
        return found
    places = pc.indices_nonzero(there)
    rows_before = decoded(before.take(places).cast(pa.binary()), _columns)
    rows_after = decoded(pc.fill_null(after.take(places).cast(pa.binary()), b"null"), _columns_or_none)
    seen = [
        Image.FULL
        if new is not None and len(own) >= len(new)
        else before_image(own.keys(), None if new is None else new.keys(), None if key is None else names_of(key))
        for own, new, key in zip(rows_before, rows_after, keys.take(places).to_pylist(), strict=True)
    ]
    return pc.replace_with_mask(found, there, pa.array(seen, pa.string()))
