"""Changes into change items: members in the order in which Transferia itself writes them."""

from collections.abc import Sequence

import msgspec

from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.rows import Row, by_rows
from changeling.formats.format import Outgoing
from changeling.formats.transferia import control, schemas, type_names
from changeling.formats.transferia.envelope import INT64, KINDS, MEMBERS, UINT64
from changeling.model import json_text, position
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName, schema_from_json

_names = msgspec.json.Decoder(list[str]).decode
_AS_A_WHOLE = ("item", "order", "lacks", "extra")
"""What `meta` has of items that are not as Transferia writes them."""


def own(cells: Cells, out: Cell, meta: Members, schema_id: bool) -> Cell:
    """The item that a change was read from."""
    if not meta.keys().isdisjoint(_AS_A_WHOLE):
        cells.alone()
        if "item" in meta:
            return meta["item"]
    change, members = out.change, _members(cells, out)
    names, values, old = by_rows(cells, change, _own_row, meta.get("keytypes"))
    members.update(columnnames=names, columnvalues=values, oldkeys=old)
    name = cells.fields(change.transaction).id
    members["id"], members["tx_id"] = (
        (meta["id"], cells.quoted(cells.first(name, ""))) if "id" in meta else (cells.first(name, b"0"), b'""')
    )
    if "nextlsn" not in meta:
        members["nextlsn"], members["txPosition"] = map(cells.digits, cells.components(change.position, 2))
    members.update((name, value) for name, value in meta.items() if name in MEMBERS)
    if "table_schema" in meta:
        members["table_schema"] = cells.each(
            schemas.written_back, meta["table_schema"], change.schema, change.table, schema_id
        )
    for lacking in _names(meta["lacks"]) if "lacks" in meta else ():
        members.pop(lacking, None)
    if "extra" in meta:
        members.update(json_text.members(meta["extra"]))
    order = _names(meta["order"]) if "order" in meta else [*MEMBERS, *members]
    return cells.shell({member: members[member] for member in order if member in members})


def foreign(cells: Cells, out: Cell, meta: Members, schema_id: bool) -> Cell:
    """The item for a change that was read from something else."""
    change, members = out.change, _members(cells, out)
    members["commitTime"] = cells.digits(cells.first(timed(cells, out), 0))
    place = _position(cells, out, members)
    declared = cells.fields(change.transaction)
    numbered = cells.holds(_is_number, declared.id)
    members["id"] = cells.first(cells.where(numbered, declared.id, None), b"0")
    members["tx_id"] = cells.where(numbered | ~cells.present(declared.id), b'""', cells.quoted(declared.id))
    order = cells.digits(declared.order)
    elsewhere = cells.present(declared.id) & ~cells.equal(order, members["txPosition"])
    extras: dict[str, Cell] = {
        "op": None,
        "catalog": cells.each(_catalog, change.table),
        "position": place,
        "order": cells.where(elsewhere, order, None),
        "total": cells.printed(declared.total),
    }
    if cells.only(cells.one_of(change.op, [operation.value for operation in KINDS])):
        names = ("columnnames", "columnvalues", "oldkeys", "table_schema")
        *row, extras["op"], extras["before_image"], extras["after_image"] = by_rows(
            cells, change, _foreign_row, out.native, schema_id
        )
        members.update(zip(names, row, strict=True))
    else:
        members.update(_control(out))
    members["changeling"] = cells.sparse(extras)
    return cells.shell({name: members[name] for name in MEMBERS if name in members})


def _members(cells: Cells, out: Cell) -> Members:
    change = out.change
    return {
        "id": b"0",
        "nextlsn": b"0",
        "commitTime": cells.digits(cells.first(change.commit_time, 0)),
        "txPosition": b"0",
        "kind": cells.each(_kind, change.op),
        "schema": cells.each(_schema, change.table),
        "table": cells.each(_table, change.table),
        "part": b'""',
        "columnnames": b"null",
        "oldkeys": b"{}",
        "tx_id": b'""',
        "query": b'""',
    }


def _kind(op: Operation) -> bytes:
    return quote(KINDS.get(op, ""))


def _schema(table: TableName | None) -> bytes:
    return quote((table and table.schema) or "")


def _table(table: TableName | None) -> bytes:
    return quote(table.name if table else "")


def _catalog(table: TableName | None) -> bytes | None:
    return None if table is None or table.catalog is None else quote(table.catalog)


def _is_number(name: str | None) -> bool:
    return name is not None and name.isascii() and name.isdigit() and name[0] != "0" and int(name) < UINT64


def _own_row(cells: Cells, row: Row, types: Cell) -> Sequence[Cell]:
    old = b"{}" if row.before is None else _old_keys(cells, row.before, types)
    if not row.after:
        return b"null", None, old
    return quote(list(row.after)), cells.array_of(row.after.values()), old


def _old_keys(cells: Cells, row: Members, types: Cell) -> Cell:
    members = {"keynames": quote(list(row)), "keytypes": types, "keyvalues": cells.array_of(row.values())}
    return cells.shell(members)


def timed(cells: Cells, out: Cell) -> Cell:
    """The commit time; one that an unsigned count of nanoseconds cannot express is lost, if the user allows it."""
    time = out.change.commit_time
    early = cells.less(time, 1)
    cells.lose(out, early, "commit_time", "the commit time is an unsigned count of nanoseconds, and 0 means none")
    return cells.where(early, None, time)


def _position(cells: Cells, out: Cell, members: Members) -> Cell:
    """What the item's own members cannot express of a position."""
    text = cells.where(cells.mask(out.arrived), None, out.change.position)
    number, order = cells.components(text, 2)
    usual = cells.less(number, UINT64) & cells.less(order, INT64) & ~cells.equal(number, 0)
    if cells.only(usual | ~cells.present(text)):
        members["nextlsn"], members["txPosition"] = (cells.digits(cells.first(part, 0)) for part in (number, order))
        return None
    number, order = (*position.decode(text), 0)[:2]
    members["nextlsn"] = b"%d" % number if number < UINT64 else b"0"
    members["txPosition"] = b"%d" % order if order < INT64 else b"0"
    return quote(position.decode(text))


def _control(out: Outgoing) -> Members:
    """The members of an item that touches no row."""
    change = out.change
    if change.op is Operation.MESSAGE:
        return control.message(change.meta)
    if change.op is Operation.COMMIT and change.transaction is None:
        out.lose("commit", "the item that ends a transaction names it, and this change names none")
    return control.members(change.op, control.statement_of(change.meta), change.transaction)


def _foreign_row(cells: Cells, row: Row, native: bool, schema_id: bool) -> Sequence[Cell]:
    kind, key = row.kind, row.key or {}
    after = None if row.after is None else {**key, **row.after}
    before = row.before
    if kind.op is Operation.DELETE or (before is not None and not key.keys() <= before.keys()):
        before = {**key, **(before or {})}
    text = schemas.described(kind.schema, tuple({**(after or {}), **(before or {})}), tuple(key))
    schema = schema_from_json(text)
    columns = [column.name for column in schema.columns]
    names, values, old, before_note, after_note = b"null", None, b"{}", None, None
    if after is not None:
        names, values = quote(list(after)), cells.array_of(after.values()) if after else None
        after_note = _noted(schemas.after_image(KINDS[kind.op], list(after), columns), kind.after_image)
    if before:
        own = {column.name: type_names.names(column, native) for column in schema.columns}
        types = [original.partition(":")[2] or wire for wire, original in (own[name] for name in before)]
        old = _old_keys(cells, before, quote(types))
        actual = Image.KEY if kind.before_image is Image.NONE else kind.before_image
        before_note = _noted(schemas.before_image(list(before), columns, list(key)), actual)
    listed = schemas.written(text, tuple(key), native, "named", kind.table, schema_id)
    op = None if KINDS[kind.op] == kind.op.value else quote(kind.op)
    return names, values, old, listed, op, before_note, after_note


def _noted(seen: Image, actual: Image) -> bytes | None:
    return None if seen is actual else quote(actual)
