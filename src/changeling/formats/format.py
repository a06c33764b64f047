"""What a format is: a name, its options, what it can carry, and how it reads and writes one record."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from changeling.envelope.reading import Reader
from changeling.envelope.writing import Writer
from changeling.formats.capabilities import SKIPPING
from changeling.formats.framing import Framing, JsonValues
from changeling.formats.options import ReadOptions, WriteOptions, build, parse_drop, shared
from changeling.formats.transaction_progress import TransactionProgress
from changeling.formats.type_table import TypeTable
from changeling.model.change import Change
from changeling.model.errors import CannotCarry
from changeling.model.table import TableSchema, schema_from_json


class Counts(msgspec.Struct, frozen=True, gc=False):
    """Running totals of an output, this change included."""

    insert: int = 0
    update: int = 0
    delete: int = 0
    replace: int = 0


class Outgoing(msgspec.Struct, gc=False):
    """A change on its way out, its values in the target's convention already."""

    change: Change
    native: bool
    """It was read from this same dialect: `meta` is its own, and the written record must equal the one read."""
    source: str
    running: int
    """Running number of the change in the output, from 1."""
    counts: Counts
    arrived: bool
    """The position is the place of arrival: the source has no order of its own."""
    drop: frozenset[str]
    dropped: set[str]
    """The features that this change loses."""
    progress: TransactionProgress = TransactionProgress()
    """What the output contains of the change's transaction, for formats with `counts_transactions`."""
    halves: bool = False
    """It was read from a dialect with halves: the last part of its position distinguishes them, and is not a place."""
    placed: tuple[int, ...] | None = None
    """The position of the last written record, where the encoder gave it one: readers use it."""

    @property
    def schema(self) -> TableSchema | None:
        """The table's schema, where it is known."""
        return None if self.change.schema is None else schema_from_json(self.change.schema)

    def lose(self, feature: str, why: str) -> None:
        """Notes what the user allowed to be lost; raises `CannotCarry` if that was not allowed.

        If nothing worth writing is left without the feature, it raises `LeftOut`: encoders need not continue.
        """
        if feature not in self.drop:
            raise CannotCarry(feature, why)
        self.dropped.add(feature)
        if feature in SKIPPING:
            raise LeftOut(feature)


class LeftOut(Exception):
    """The user allowed the change to be left out."""


Sign = tuple[str, ...]
"""Members that a record of a dialect has, as paths (`source.tx_id`), some with the text that they contain (`source.connector=ydb`)."""


@dataclass(frozen=True)
class Format:
    """One dialect. `reader` and `writer` receive checked options once; the result is called for each record, or for groups of them."""

    name: str
    summary: str
    read_options: type[ReadOptions]
    write_options: type[WriteOptions]
    reader: Callable[[Any], Reader]
    """Gives what a record says, as cells; raises `Rejected` (or any ValueError) with the reason."""
    writer: Callable[[Any], Writer]
    """Gives the records of a change, as cells (none is allowed); raises `CannotCarry`."""
    carries: frozenset[str]
    """Features (see `capabilities`) that can be read back from a written record."""
    types: TypeTable
    framing: Callable[[Any], Framing] = lambda options: JsonValues()
    """How records are framed in a file, given the reading options."""
    position: str = "the source's own"
    """The components of positions, for people."""
    before_arrival: Callable[[str], tuple[int, ...]] = lambda op: ()
    """The numbers in front of the place of arrival, for an operation without a position that must sort before all that have one."""
    names_table: bool = True
    """Records say which table they belong to."""
    numbers_schemas: bool = False
    """Records may name their schema by its number alone."""
    extraction_time: Callable[[str], int | None] | None = None
    """When a change was taken from its database, in nanoseconds, from its `meta`; None where records never contain it."""
    meta_templates: bool = False
    """The `meta` of changes in the log may be a template (see `meta_template`)."""
    snapshot_mark: str | None = None
    """Where `meta` says whether a row is the first or the last one of a snapshot, as a path (`$.a.b`)."""
    counts_transactions: bool = False
    """Writers must know how much of a transaction is in the output already."""
    halves: bool = False
    """An update may come as two records, one with each image (see `pairing`)."""
    feed_modes: tuple[str, ...] = ("NEW_AND_OLD_IMAGES",)
    """The modes of changefeeds whose records have what this dialect needs."""
    signs: tuple[Sign, ...] = ()
    """What gives its JSON records away (see `recognition`): they have all members of one sign."""
    row_sign: Callable[[Sequence[str]], bool] | None = None
    """Whether the fields of a row of CSV are those of one of its rows, or of their header."""
    yields_to: tuple[str, ...] = ()
    """Dialects whose records have its signs and their own: where one of them fits, too, the records are of that one."""


def read_options(form: Format, options: Mapping[str, Any]) -> ReadOptions:
    """The checked reading options of a format, as a user writes them: its own, and those of all formats."""
    names = [name for name in ("table", "key", "source", "columns", "schemas") if name in options]
    own = {name: value for name, value in options.items() if name not in names}
    return build(
        form.read_options, {**own, **shared(**{name: options[name] for name in names})}, f"reading {form.name}"
    )


def write_options(form: Format, options: Mapping[str, Any]) -> WriteOptions:
    """The checked writing options of a format; `drop` may be text, as on the command line."""
    given = dict(options)
    if isinstance(given.get("drop"), str):
        given["drop"] = parse_drop(given["drop"])
    return build(form.write_options, given, f"writing {form.name}")
