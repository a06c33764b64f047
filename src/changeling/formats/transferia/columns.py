"""Plain change items by columns: rows of one plan (table, kind, lists of columns) together."""

import functools
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeling.envelope.change_columns import ChangeColumns
from changeling.envelope.events import Events
from changeling.envelope.keys import are_canonical, keys_of
from changeling.envelope.parts import positions, transactions
from changeling.envelope.shapes import OddOnes, Shape, decoded, items, only_first_is_odd, require
from changeling.envelope.text_columns import Part, Places, as_mask, distinct, distinct_rows, joined, placed
from changeling.formats.format import DecodeBatch
from changeling.formats.options import ReadOptions
from changeling.formats.transferia import row_plan, schemas
from changeling.formats.transferia.decode import TransferiaRead
from changeling.formats.transferia.envelope import KINDS, MEMBERS, ROW_KINDS, Extras
from changeling.formats.transferia.row_plan import RowPlan
from changeling.model.errors import Rejected
from changeling.model.operation import Image
from changeling.model.table import TableName

T = TypeVar("T")


class PlainExtras(Extras, gc=False):
    """What plain items have of what Changeling itself adds."""

    op: None = None
    position: None = None
    order: msgspec.UnsetType = msgspec.UNSET


_extras = msgspec.json.Decoder(PlainExtras)
_text = msgspec.json.Decoder(str).decode
_OPTIONAL = ("columnvalues", "changeling")
_OLD = Shape(("keynames", "keytypes", "keyvalues"), (b'{"keynames":', b',"keytypes":', b',"keyvalues":', b"}"))
_NUMBERS = ("id", "nextlsn", "commitTime", "txPosition")
_WHOLE = "^(?:0|[1-9][0-9]{0,18})$"
_PLAN = ("kind", "schema", "table", "columnnames", "keynames", "keytypes", "table_schema")
"""What all rows of one plan have in common."""
_HELD = (Image.FULL, Image.PARTIAL, Image.KEY)
_KINDS = {f'"{kind}"'.encode(): kind for kind, operation in ROW_KINDS.items() if KINDS[operation] == kind}


class _Rows(NamedTuple):
    """Rows of one plan, as columns."""

    key: pa.Array
    before: pa.Array
    after: pa.Array
    noted: pa.Array
    """What `meta` keeps of their columns, each member with a comma behind it."""


def batch_decoder(options: TransferiaRead) -> DecodeBatch | None:
    """A function from plain items to their changes."""
    return None if options.shape == "seed" else _Reader(options).decode


class _Reader:
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._plans: dict[tuple[object, ...], RowPlan | None] = {}

    def decode(self, records: pa.RecordBatch, source: str) -> pa.RecordBatch:
        """The changes of plain items; raises `OddOnes` where some are not."""
        events = _taken_apart(records)
        plans, groups = self._planned(events)
        parts = []
        for group, plan in enumerate(plans):
            rows = np.flatnonzero(groups == group)
            parts.append((rows, _among(rows, events, functools.partial(_rows, events, plan, rows))))
        key, before, after, noted = (
            placed([(rows, getattr(made, name)) for rows, made in parts], events.count) for name in _Rows._fields
        )
        message_key = records.column("key")
        events.expect(pc.or_kleene(pc.is_null(message_key), pc.equal(message_key, key)))
        events.check()
        tables, which = distinct([plan.table.table for plan in plans])
        by_plan = pa.array(groups)
        numbers, lsn, times, orders = (events.texts[name].cast(pa.string()).cast(pa.int64()) for name in _NUMBERS)
        ids = pc.if_else(pc.equal(numbers, 0), None, numbers.cast(pa.string()))
        changeling = events.texts["changeling"]
        return ChangeColumns(
            op=pa.array([ROW_KINDS[plan.kind].value for plan in plans], pa.string()).take(by_plan),
            tables=[table for table in tables if table is not None],
            table=which.take(by_plan),
            key=key,
            before=before,
            after=after,
            before_image=_images(events, "before_image", [plan.before_image for plan in plans], by_plan, before),
            after_image=_images(events, "after_image", [plan.after_image for plan in plans], by_plan, after),
            position=positions(lsn, orders),
            commit_time=pc.if_else(pc.equal(times, 0), None, times),
            transaction=transactions(ids, orders, pa.array(events.leaves("total"), pa.int64())),
            meta=joined(
                b"{",
                noted,
                b'"table_schema":',
                pa.array([plan.table.kept for plan in plans], pa.binary()).take(by_plan),
                pc.fill_null(joined(b',"changeling":', changeling), b""),
                b"}",
            ),
            schema=pa.array([plan.table.schema for plan in plans], pa.string()).take(by_plan),
        ).batch(records.column("origin"), source, "transferia")

    def _planned(self, events: Events) -> tuple[list[RowPlan], Places]:
        """The plans of the items, and which of them each one has."""
        codes = [events.texts[name].dictionary_encode() for name in _PLAN]
        kinds, groups = distinct_rows([*(code.indices.to_pylist() for code in codes), events.leaves("catalog")])
        found = []
        for *places, catalog in kinds:
            texts = (
                None if own is None else code.dictionary[own].as_py() for code, own in zip(codes, places, strict=True)
            )
            found.append(self._plan(*texts, catalog))
        events.expect(pa.array([plan is not None for plan in found], pa.bool_()).take(groups))
        events.check()
        return [plan for plan in found if plan is not None], groups.to_numpy()

    def _plan(self, *known: Any) -> RowPlan | None:
        """The plan of rows with these texts; None where they need a closer look."""
        if known not in self._plans:
            schemas.remember(self._plans, known, self._new_plan(*known))
        return self._plans[known]

    def _new_plan(
        self,
        kind: bytes,
        schema: bytes,
        table: bytes,
        columns: bytes,
        old_columns: bytes | None,
        old_types: bytes | None,
        table_schema: bytes,
        catalog: str | None,
    ) -> RowPlan | None:
        try:
            name = TableName(catalog, _text(schema) or None, _text(table))
            plan = schemas.plan(table_schema, name, self._options)
            made = row_plan.make(plan, _KINDS[kind], columns, old_columns or b"null")
        except (Rejected, msgspec.DecodeError):
            return None
        is_old = made.before is not None and not made.before_in_columns
        return made if is_old is (old_columns is not None) and plan.kept is not None else None


def _taken_apart(records: pa.RecordBatch) -> Events:
    """The items that have all members in the usual order, and nothing in those that are mostly empty."""
    values = records.column("value")
    shape = Shape.of(values[0].as_py())
    if shape is None or shape.names != tuple(name for name in MEMBERS if name in shape.names or name not in _OPTIONAL):
        raise only_first_is_odd(len(values))
    events = Events(records, shape.with_optional(_OPTIONAL, MEMBERS).members(values))
    texts = events.texts
    events.expect(pc.is_in(texts["kind"], pa.array(list(_KINDS), pa.binary())))
    events.expect(pc.not_equal(texts["table"], b'""'))
    events.expect(pc.not_equal(texts["nextlsn"], b"0"))
    for name in ("part", "tx_id", "query"):
        events.expect(pc.equal(texts[name], b'""'))
    for name in _NUMBERS:
        events.expect(pc.match_substring_regex(texts[name], _WHOLE))
    events.check()
    old = np.flatnonzero(as_mask(pc.not_equal(texts["oldkeys"], b"{}")))
    keys = _among(old, events, lambda: _OLD.members(texts["oldkeys"].take(pa.array(old)))) if len(old) else {}
    for name in _OLD.names:
        texts[name] = placed([(old, keys[name])] if keys else [], events.count)
    extras = decoded(pc.fill_null(texts["changeling"], b"{}"), _extras)
    events.add(extras, ("catalog", "total", "before_image", "after_image"))
    return events


def _among(places: Places, events: Events, read: Callable[[], T]) -> T:
    """What is read of some of the events; those that are odd are so among all of them."""
    try:
        return read()
    except OddOnes as error:
        plain = np.ones(events.count, np.bool_)
        plain[places] = error.plain
        raise OddOnes(plain) from None


def _rows(events: Events, plan: RowPlan, places: Places) -> _Rows:
    rows = pa.array(places)
    values, old_values = (events.texts[name].take(rows) for name in ("columnvalues", "keyvalues"))
    new = _cells(values, plan.new_count)
    old = _cells(old_values, plan.old_count)
    key = [(name, (old if is_old else new)[place]) for name, is_old, place in plan.key]
    for _, cells in key:
        require(are_canonical(cells))
    nothing = pa.nulls(len(places), pa.binary())
    return _Rows(
        keys_of(key) if key else nothing,
        nothing if plan.before is None else _image(plan.before, new if plan.before_in_columns else old, len(places)),
        nothing if plan.after is None else _image(plan.after, new, len(places)),
        _noted(events, plan, rows, values),
    )


def _cells(values: pa.Array, count: int) -> list[pa.Array]:
    """The values of rows of so many columns, which may be missing where there are none."""
    if count:
        require(as_mask(pc.is_valid(values)))
        return items(values, count)
    require(as_mask(pc.or_kleene(pc.is_null(values), pc.equal(values, b"[]"))))
    return []


def _image(heads: tuple[bytes, ...], cells: Sequence[pa.Array], count: int) -> pa.Array:
    if not heads:
        return pa.repeat(pa.scalar(b"{}"), count)
    return joined(*chain.from_iterable(zip(heads, cells, strict=True)), b"}")


def _noted(events: Events, plan: RowPlan, rows: pa.Array, values: pa.Array) -> pa.Array:
    parts: list[Part] = [pa.repeat(pa.scalar(b""), len(rows))]
    if not plan.after:
        names = events.texts["columnnames"].take(rows)
        if names[0].as_py() != b"null":
            parts += [b'"columnnames":', names, b","]
        parts.append(pc.fill_null(joined(b'"columnvalues":', values, b","), b""))
    if plan.before is not None and not plan.before_in_columns:
        parts += [b'"keytypes":', events.texts["keytypes"].take(rows), b","]
    elif plan.before_in_columns:
        parts.append(b'"oldkeys":{},')
    return joined(*parts)


def _images(events: Events, name: str, seen: list[Image], plans: pa.Array, images: pa.Array) -> pa.Array:
    """How complete images are: as Changeling itself noted, else as the plan says."""
    planned = pa.array([image.value for image in seen], pa.string()).take(plans)
    given = events.leaves(name)
    if not any(given):
        return planned
    noted = pa.array([image if image in _HELD else None for image in given], pa.string())
    return pc.if_else(pc.is_valid(images), pc.coalesce(noted, planned), planned)
