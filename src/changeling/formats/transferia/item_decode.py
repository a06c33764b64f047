"""Change items into changes. What a change does not contain of its item goes to `meta`, under the item's own names."""

import operator

import msgspec
from msgspec import UNSET

from changeling.envelope.one import ONE
from changeling.formats.member_order import is_usual
from changeling.formats.options import ReadOptions
from changeling.formats.transferia import control, row_plan, schemas
from changeling.formats.transferia.envelope import INT64, KINDS, MEMBERS, ROW_KINDS, Extras, Item, OldKeys
from changeling.formats.transferia.row_plan import RowPlan
from changeling.formats.transferia.schemas import TablePlan, remember
from changeling.model import json_text
from changeling.model.change import Change, Transaction
from changeling.model.errors import Rejected
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position_of
from changeling.model.table import TableName

_item = msgspec.json.Decoder(Item).decode
_extras = msgspec.json.Decoder(Extras).decode
_WIRE_NAMES = {field.name: field.encode_name for field in msgspec.structs.fields(Item)}
_ALWAYS = tuple(name for name in _WIRE_NAMES if name not in ("kind", "columnvalues", "table_schema", "changeling"))
"""Members that Transferia itself never leaves out."""
_always = operator.attrgetter(*_ALWAYS)
_NO_KEYS = OldKeys()
_HELD = (Image.FULL, Image.PARTIAL, Image.KEY)


class NotAnItem(Rejected):
    """The record is something else."""


class ItemReader:
    """Reads change items, with one set of options."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._plans: dict[tuple[object, ...], TablePlan] = {}
        self._rows: dict[tuple[object, ...], RowPlan] = {}

    def decode(self, value: bytes) -> Change:
        """The change of one item; raises `Rejected` or another ValueError with the reason."""
        meta: dict[str, bytes] = {}
        try:
            item = _item(value)
        except msgspec.ValidationError:
            item = _odd(value, meta)
        extras = None if item.changeling is UNSET else _extras(item.changeling)
        op = ROW_KINDS.get(item.kind)
        if op is not None:
            change = self._row(item, op, extras, meta)
        else:
            change = control.decode(item, value)
            if item.table:
                change.table, change.schema, *_ = self._plan(item, extras)
        _place(change, item, meta)
        if extras is not None:
            _apply(change, item, extras, meta)
        if op is not None:
            _keep_order(value, meta)
        if op is not None and meta:
            change.meta = json_text.join(meta.items())
        return change

    def _plan(self, item: Item, extras: Extras | None) -> TablePlan:
        raw = None if item.table_schema is UNSET else bytes(item.table_schema)
        catalog = None if extras is None else extras.catalog
        known = (raw, catalog, item.schema, item.table)
        found = self._plans.get(known)
        if found is None:
            table = TableName(catalog, item.schema or None, item.table) if item.table else self._options.table
            if table is None:
                raise Rejected("the item names no table: say which with --table")
            found = remember(self._plans, known, schemas.table_plan(raw, table, self._options))
        return found

    def _row_plan(self, item: Item, extras: Extras | None) -> RowPlan:
        known = (
            item.kind,
            None if item.columnnames is UNSET else bytes(item.columnnames),
            bytes(item.oldkeys.keynames) if item.oldkeys and item.oldkeys.keynames is not UNSET else None,
            None if item.table_schema is UNSET else bytes(item.table_schema),
            item.schema,
            item.table,
            None if extras is None else extras.catalog,
        )
        found = self._rows.get(known)
        if found is None:
            _, columns, old_columns, *_ = known
            made = row_plan.make(self._plan(item, extras), item.kind, columns or b"null", old_columns or b"null")
            found = remember(self._rows, known, made)
        return found

    def _row(self, item: Item, op: Operation, extras: Extras | None, meta: dict[str, bytes]) -> Change:
        row = self._row_plan(item, extras)
        keys = item.oldkeys
        new, old = ([bytes(raw) for raw in raws or []] for raws in (item.columnvalues, keys and keys.keyvalues))
        if len(new) != row.new_count:
            raise Rejected(f"{row.new_count} columnnames, but {len(new)} columnvalues")
        if len(old) != row.old_count:
            raise Rejected(f"{row.old_count} keynames, but {len(old)} keyvalues")
        plan = row.table
        change = Change(
            op=op,
            table=plan.table,
            key=row_plan.key_of(ONE, row, new, old),
            after=row_plan.after_of(ONE, row, new),
            before=row_plan.before_of(ONE, row, new, old),
            after_image=row.after_image,
            before_image=row.before_image,
            schema=plan.schema,
        )
        if not row.after:
            meta.update(_kept_columns(item))
        if row.before is not None and not row.before_in_columns:
            if keys and keys.keytypes is not UNSET:
                meta["keytypes"] = bytes(keys.keytypes)
        elif keys is not UNSET and (row.before_in_columns or keys != _NO_KEYS):
            meta.setdefault("oldkeys", quote(keys))
        if plan.kept is not None:
            meta["table_schema"] = plan.kept
        _keep_rest(item, meta)
        return change


def _odd(value: bytes, meta: dict[str, bytes]) -> Item:
    """An item with members that Transferia does not have; they are kept."""
    members = json_text.members(value)
    if "kind" not in members:
        raise NotAnItem("not a change item: it has no `kind`")
    known, extra = [], []
    for name, part in members.items():
        if name not in _WIRE_NAMES.values():
            extra.append((name, part))
            continue
        if name == "oldkeys" and part[:1] == b"{":
            keys = json_text.members(part)
            own = {key: keys[key] for key in OldKeys.__struct_fields__ if key in keys}
            if len(own) < len(keys):
                meta["oldkeys"] = part
                part = json_text.join(own.items())
        known.append((name, part))
    if extra:
        meta["extra"] = json_text.join(extra)
    return _item(json_text.join(known))


def _kept_columns(item: Item) -> dict[str, bytes]:
    kept = {}
    if item.columnnames is not UNSET and bytes(item.columnnames) != b"null":
        kept["columnnames"] = bytes(item.columnnames)
    if item.columnvalues is not UNSET:
        kept["columnvalues"] = quote(item.columnvalues)
    return kept


def _keep_rest(item: Item, meta: dict[str, bytes]) -> None:
    if item.kind != KINDS[ROW_KINDS[item.kind]]:
        meta["kind"] = quote(item.kind)
    if item.part:
        meta["part"] = quote(item.part)
    if item.query:
        meta["query"] = quote(item.query)
    if not item.table:
        # The table is the one that the user named: the item's own members say less.
        meta.update(
            (name, quote(getattr(item, name))) for name in ("schema", "table") if getattr(item, name) is not UNSET
        )
    if UNSET in _always(item):
        names = zip(_ALWAYS, _always(item), strict=True)
        meta["lacks"] = quote([_WIRE_NAMES[name] for name, value in names if value is UNSET])


def _keep_order(value: bytes, meta: dict[str, bytes]) -> None:
    if not is_usual(value, MEMBERS):
        meta["order"] = quote(list(json_text.members(value)))
    keys = json_text.members(value).get("oldkeys", b"null")
    if keys[:1] == b"{" and not is_usual(keys, OldKeys.__struct_fields__):
        meta["oldkeys"] = keys


def _place(change: Change, item: Item, meta: dict[str, bytes]) -> None:
    """Position, time and transaction; what they cannot express exactly is kept."""
    number, order, time = item.nextlsn or 0, item.tx_position or 0, item.commit_time or 0
    if number:
        change.position = position_of(number, order)
    else:
        meta["nextlsn"] = b"0"
        if order:
            meta["txPosition"] = b"%d" % order
    if time >= INT64:
        meta["commitTime"] = b"%d" % time
    elif time:
        change.commit_time = time
    if change.transaction is not None:
        return
    if item.tx_id:
        change.transaction = Transaction(item.tx_id, order)
        meta["id"] = b"%d" % (item.id or 0)
    elif item.id:
        change.transaction = Transaction(str(item.id), order)


def _apply(change: Change, item: Item, extras: Extras, meta: dict[str, bytes]) -> None:
    """What Changeling itself wrote in addition to the item's own members."""
    if item.changeling is not UNSET:
        meta["changeling"] = bytes(item.changeling)
    if extras.op is not None and extras.op is not change.op:
        if KINDS.get(extras.op) != item.kind:
            raise Rejected(f"kind {item.kind!r} cannot be the operation {extras.op.value!r} that `changeling` declares")
        change.op = extras.op
    if extras.position is not None:
        change.position = position_of(*extras.position)
        if item.nextlsn:
            meta["nextlsn"], meta["txPosition"] = b"%d" % item.nextlsn, b"%d" % (item.tx_position or 0)
    if change.transaction is not None and (extras.order is not UNSET or extras.total is not None):
        order = change.transaction.order if extras.order is UNSET else extras.order
        change.transaction = Transaction(change.transaction.id, order, extras.total, change.transaction.complete)
    if extras.before_image in _HELD and change.before is not None:
        change.before_image = extras.before_image
    if extras.after_image in _HELD and change.after is not None:
        change.after_image = extras.after_image
