"""Change items of rows as Transferia writes them, one or many at a time: all members in order, those that are mostly empty empty."""

from collections.abc import Sequence

import msgspec

from changeling.envelope.cells import Cell, Cells, Part
from changeling.envelope.reading import ChangeCells
from changeling.formats.options import ReadOptions
from changeling.formats.transferia import row_plan, schemas
from changeling.formats.transferia.envelope import KINDS, MEMBERS, ROW_KINDS, Extras, OldKeys
from changeling.formats.transferia.row_plan import RowPlan
from changeling.model.errors import Rejected
from changeling.model.operation import Image
from changeling.model.table import TableName

_EXTRAS = Part("changeling", Extras)
_text = msgspec.json.Decoder(str).decode
_OPTIONAL = ("columnvalues", "changeling")
_OLD_KEYS = OldKeys.__struct_fields__
_EMPTY = ("part", "tx_id", "query")
_HELD = (Image.FULL, Image.PARTIAL, Image.KEY)
_USUAL_KINDS = {kind for kind, operation in ROW_KINDS.items() if KINDS[operation] == kind}


class UsualItems:
    """Reads usual items, with one set of options."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._plans: dict[tuple[object, ...], RowPlan | None] = {}

    def read(self, cells: Cells, record: Cell) -> ChangeCells | None:
        """The change of an item; None where it is not usual."""
        names = cells.names(record.value)
        if names != tuple(name for name in MEMBERS if name in names or name not in _OPTIONAL):
            return None
        item = cells.members(record.value, optional=_OPTIONAL, usual=MEMBERS)
        number, lsn, time, order = (cells.natural(item[name]) for name in ("id", "nextlsn", "commitTime", "txPosition"))
        usual = cells.all_present((number, lsn, time, order)) & ~cells.equal(lsn, 0)
        for name in _EMPTY:
            usual &= cells.equal(item[name], b'""')
        extras = cells.struct(_EXTRAS, item.get("changeling"))
        usual &= ~(cells.present(extras.op) | cells.present(extras.position)) & ~cells.is_set(extras.order)
        if not cells.only(usual):
            return None
        with_old = ~cells.equal(item["oldkeys"], b"{}")
        old = dict(zip(_OLD_KEYS, cells.by_value(_old_keys, with_old, item["oldkeys"]), strict=True))
        plan = cells.each(
            self._plan,
            *(item[name] for name in ("kind", "schema", "table", "columnnames", "table_schema")),
            old["keynames"],
            old["keytypes"],
            extras.catalog,
        )
        lists = [values for values in (item.get("columnvalues"), old["keyvalues"]) if values is not None]
        usual = cells.present(plan)
        for values in lists:
            usual &= ~cells.present(values) | cells.starts(values, b"[")
        if not cells.only(usual):
            return None
        parts = (item.get("columnvalues"), old["keyvalues"], item["columnnames"], old["keytypes"])
        key, before, after, noted = cells.by_value(_row, plan, *parts)
        if not cells.only(~cells.present(record.key) | cells.equal(record.key, key)):
            return None
        kept = item.get("changeling")
        return ChangeCells(
            op=cells.each(_operation, plan),
            table=cells.each(_table, plan),
            key=key,
            before=before,
            after=after,
            before_image=_image(cells, before, extras.before_image, cells.each(_before_image, plan)),
            after_image=_image(cells, after, extras.after_image, cells.each(_after_image, plan)),
            position=cells.position(lsn, order),
            commit_time=cells.where(cells.equal(time, 0), None, time),
            transaction=cells.transaction(
                cells.where(cells.equal(number, 0), None, cells.printed(number)), order, extras.total
            ),
            meta=cells.joined(
                b"{",
                noted,
                b'"table_schema":',
                cells.each(_kept_schema, plan),
                cells.first(cells.joined(b',"changeling":', kept), b""),
                b"}",
            ),
            schema=cells.each(_schema, plan),
        )

    def _plan(
        self,
        kind: bytes,
        schema: bytes,
        table: bytes,
        columns: bytes,
        table_schema: bytes,
        old_columns: bytes | None,
        old_types: bytes | None,
        catalog: str | None,
    ) -> RowPlan | None:
        """The plan of rows with these texts; None where they are not usual."""
        known = (kind, schema, table, columns, table_schema, old_columns, old_types is None, catalog)
        if known not in self._plans:
            try:
                made = self._new_plan(kind, schema, table, columns, old_columns, table_schema, catalog)
            except (Rejected, msgspec.DecodeError):
                made = None
            schemas.remember(self._plans, known, made)
        return self._plans[known]

    def _new_plan(
        self,
        kind: bytes,
        schema: bytes,
        table: bytes,
        columns: bytes,
        old_columns: bytes | None,
        table_schema: bytes,
        catalog: str | None,
    ) -> RowPlan | None:
        name = TableName(catalog, _text(schema) or None, _text(table))
        if _text(kind) not in _USUAL_KINDS or not name.name:
            return None
        plan = schemas.table_plan(table_schema, name, self._options)
        made = row_plan.make(plan, _text(kind), columns, old_columns or b"null")
        is_old = made.before is not None and not made.before_in_columns
        return made if is_old is (old_columns is not None) and plan.kept is not None else None


def _operation(plan: RowPlan) -> str:
    return ROW_KINDS[plan.kind]


def _table(plan: RowPlan) -> TableName | None:
    return plan.table.table


def _schema(plan: RowPlan) -> str | None:
    return plan.table.schema


def _kept_schema(plan: RowPlan) -> bytes | None:
    return plan.table.kept


def _before_image(plan: RowPlan) -> Image:
    return plan.before_image


def _after_image(plan: RowPlan) -> Image:
    return plan.after_image


def _image(cells: Cells, image: Cell, noted: Cell, planned: Cell) -> Cell:
    """How complete an image is: as Changeling itself noted, else as the plan says."""
    if not cells.any(cells.present(noted)):
        return planned
    held = cells.where(cells.one_of(noted, _HELD), noted, None)
    return cells.where(cells.present(image), cells.first(held, planned), planned)


def _old_keys(cells: Cells, there: bool, text: Cell) -> Sequence[Cell]:
    """The names, types and values of the old keys; None where there are none, or they are unusual."""
    if not there or not cells.only(cells.starts(text, b"{")) or cells.names(text) != _OLD_KEYS:
        return None, None, None
    return tuple(cells.members(text).values())


def _row(cells: Cells, plan: RowPlan, values: Cell, old_values: Cell, names: Cell, types: Cell) -> Sequence[Cell]:
    """The key and the images of rows of one plan, and what `meta` keeps of their columns, each member followed by a comma."""
    new, old = _cells(cells, values, plan.new_count, "column"), _cells(cells, old_values, plan.old_count, "key")
    noted: list[Cell] = [b""]
    if not plan.after:
        if cells.common(cells.equal(names, b"null")):
            names = None
        noted.append(cells.first(cells.joined(b'"columnnames":', names, b","), b""))
        noted.append(cells.first(cells.joined(b'"columnvalues":', values, b","), b""))
    if plan.before is not None and not plan.before_in_columns:
        noted += [b'"keytypes":', types, b","]
    elif plan.before_in_columns:
        noted.append(b'"oldkeys":{},')
    return (
        row_plan.key_of(cells, plan, new, old),
        row_plan.before_of(cells, plan, new, old),
        row_plan.after_of(cells, plan, new),
        cells.joined(*noted),
    )


def _cells(cells: Cells, values: Cell, count: int, what: str) -> list[Cell]:
    """The values of rows of `count` columns, which may be missing where there are none."""
    if not count and cells.common(cells.present(values)) is False:
        return []
    return cells.items(
        cells.first(values, b"[]"), count, lambda found: f"{count} {what}names, but {found} {what}values"
    )
