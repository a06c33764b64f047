"""Values of one dialect into those of another, column by column, by the schema of a change."""

import functools
from collections.abc import Callable, Mapping

import msgspec

from changeling.formats.format import LeftOut
from changeling.formats.type_table import TypeTable, WriteColumn
from changeling.model import canonical, json_text
from changeling.model.canonical import Convert
from changeling.model.change import Change
from changeling.model.errors import CannotCarry, Rejected
from changeling.model.table import Column, schema_from_json
from changeling.model.types import Type

Lose = Callable[[str, str], None]
"""Takes a feature and why it does not fit; raises if the user did not allow it to be lost."""


class Transcoder:
    """Rewrites the images and the key of changes from one format's convention to another's.

    A column whose type is unknown passes as it is, except that a format may spell untyped values in its own way.
    """

    def __init__(self, source: TypeTable, target: TypeTable) -> None:
        self._source, self._target = source, target
        self.untyped = _chain(source.untyped_read, target.untyped)
        """How values of unknown type are converted; None where they are the same in both conventions."""
        self.plan = functools.lru_cache(maxsize=1024)(self._conversions)
        """How the columns of a schema (as text) are converted."""

    def takes_canonical(self, column: Column) -> bool:
        """Whether values of a column in their canonical form are read as they are."""
        return self._source.reader(column.canonical, column.original_type) is canonical.reader(column.canonical)

    def column_writer(self, kind: Type) -> WriteColumn | None:
        """From a column of values that are certainly canonical, without any that are null; None: they stay as they are."""
        return self._target.column_writer(kind)

    def __call__(self, change: Change, lose: Lose | None = None) -> Change:
        """The same change in the target's convention; raises `Rejected` naming the column whose value does not fit.

        A value that the target has no type for is passed to `lose`; if that is allowed, the column is left out, and so is
        the change if it was part of the key.
        """
        if change.key is None and change.before is None and change.after is None:
            return change
        plan = self.plan(change.schema)
        if not plan and self.untyped is None:
            return change
        key = self._object(change.key, plan, lose, in_key=True)
        return msgspec.structs.replace(
            change,
            key=key and json_text.canonical_key(json_text.members(key).items()),
            before=self._object(change.before, plan, lose),
            after=self._object(change.after, plan, lose),
        )

    def _object(
        self, text: str | bytes | None, plan: Mapping[str, Convert | None], lose: Lose | None, *, in_key: bool = False
    ) -> bytes | None:
        if text is None:
            return None
        pairs = []
        for name, value in json_text.members(text).items():
            convert = plan.get(name, self.untyped)
            if convert is not None and value != b"null":
                try:
                    written = convert(value)
                except CannotCarry as lack:
                    if lose is None:
                        raise
                    lose(lack.feature, f"column {name!r}: {lack.why}")
                    if in_key:
                        raise LeftOut(lack.feature) from None
                    continue
                except (Rejected, msgspec.DecodeError) as error:
                    raise Rejected(f"column {name!r}: {error}") from None
                if lose is not None and (why := self.loss(value, written, typed=name in plan)) is not None:
                    lose("types", f"column {name!r}: {why}")
                value = written
            pairs.append((name, value))
        return json_text.join(pairs)

    def loss(self, value: bytes, written: bytes, *, typed: bool) -> str | None:
        """Why the value that is written is not the one that was read; None where it is."""
        if typed:
            return "the JSON value null cannot be distinguished from NULL" if written == b"null" else None
        read = self._source.untyped_read
        return self._target.untyped_loss(value if read is None else read(value))

    def _conversions(self, schema: str | None) -> dict[str, Convert | None]:
        if schema is None:
            return {}
        return {
            column.name: (_chain_json if column.canonical.kind == "json" else _chain)(
                self._source.reader(column.canonical, column.original_type),
                self._target.writer(column.canonical),
            )
            for column in schema_from_json(schema).columns
        }


def _chain(read: Convert | None, write: Convert | None) -> Convert | None:
    if read is None or write is None:
        return read or write

    def both(raw: bytes) -> bytes:
        plain = read(raw)
        return plain if plain == b"null" else write(plain)

    return both


def _chain_json(read: Convert, write: Convert | None) -> Convert:
    """As `_chain`, except that null is a value of JSON: a dialect that writes JSON as text can express it."""
    if write is None:
        return read

    def both(raw: bytes) -> bytes:
        return write(read(raw))

    return both
