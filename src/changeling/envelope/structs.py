"""Members of envelopes that are objects of known members themselves."""

from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import msgspec

from changeling.model import json_text


class Scalar(NamedTuple):
    """A member of such an object that is a text or a whole number."""

    attribute: str
    name: str
    kind: type
    nullable: bool
    may_lack: bool
    decode: Callable[[bytes], Any]


class MemberStruct:
    """A member of an envelope that is an object of known members: its errors name it, if it has a name."""

    def __init__(self, name: str, kind: Any, *, nullable: bool = False) -> None:
        self.nullable = nullable
        self.decoder = msgspec.json.Decoder(kind)
        self.decoder_or_none = msgspec.json.Decoder(kind | None)
        decode = (self.decoder_or_none if nullable else self.decoder).decode
        self.decode = json_text.named(name, decode) if name else decode
        self.fields: tuple[str, ...] = kind.__struct_fields__
        self.scalars = _scalars(kind)
        """Its members, where all of them are texts and whole numbers, and others are ignored."""


def _scalars(kind: Any) -> list[Scalar] | None:
    found = []
    for field in msgspec.structs.fields(kind):
        kinds = set(get_args(field.type) or (field.type,))
        own = kinds - {type(None)}
        if own not in ({int}, {str}) or kind.__struct_config__.forbid_unknown_fields:
            return None
        decode = msgspec.json.Decoder(field.type).decode
        found.append(
            Scalar(field.name, field.encode_name, own.pop(), type(None) in kinds, field.default is None, decode)
        )
    return found


class Absent:
    """Stands for an object that is missing: each of its attributes is None."""

    def __getattr__(self, name: str) -> None:
        return None
