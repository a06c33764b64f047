"""Changes into Transferia's records: items as Transferia itself writes them, or the seven members of its data model."""

from collections.abc import Sequence

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Members, Names
from changeling.envelope.rows import ImageColumns, by_rows
from changeling.envelope.writing import RecordCells, Writer, kept
from changeling.formats.format import Outgoing
from changeling.formats.options import WriteOptions
from changeling.formats.transferia import envelope, schema, types
from changeling.formats.transferia.envelope import INT64_END, KINDS, MEMBERS, ROWS, UINT64_END, Serialization, Shape
from changeling.model import json_text, position
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import schema_from_json

_list = msgspec.json.Decoder(list[str]).decode
_DDL_COLUMNS = b'[{"name":"query","type":"utf8","key":false,"original_type":""}]'
"""The one value of a DDL record is its statement, under the name that Transferia's own DDL items give it."""
_LOST = {
    "catalog": "Table is the schema and the name, and cannot contain the catalog",
    "transaction": "ID differs for each change, and nothing says which were committed together",
    "position": "ID is the running number of the change, not the source's own order",
    "commit_time": "the commit time is an unsigned count of nanoseconds, and 0 means none",
    "partial": "Values is a list, where an absent column looks like NULL",
}
"""What has no place in records of the data model, the time in none, and why."""
_USUAL = {"txPosition": b"0", "part": b'""', "columnnames": b"null", "oldkeys": b"{}", "query": b'""'}


class TransferiaWrite(WriteOptions, frozen=True, kw_only=True):
    """Options of a Transferia writer."""

    shape: Shape | None = None
    """Change items, or records of the data model; by default records of Transferia keep theirs, others become items."""
    schema_id: bool = False
    """Write the registry's number of a schema instead of its columns, where it has one."""
    serialization: Serialization = "json"
    """How values are serialized; proto is refused."""


def writer(options: TransferiaWrite) -> Writer:
    """A function from a change to its record."""
    envelope.refuse_proto(options.serialization)

    def write(cells: Cells, out: Cell) -> list[RecordCells]:
        change = out.change
        meta = kept(cells, out)
        if (
            not cells.usually(cells.one_of(change.op, ROWS))
            and change.op is Operation.MESSAGE
            and change.meta is not None
        ):
            meta = json_text.members(change.meta)
            if "tombstone" in meta:
                return [RecordCells(None, message_keys.restored(cells, meta, change.key))]
        was: Shape | None = None if not out.native else "seed" if "shape" in meta else "item"
        shape = options.shape or was or "item"
        if shape == was:
            own = _own_item if shape == "item" else _own_seed
            value = meta["item"] if "item" in meta else own(cells, out, meta, options.schema_id)
        else:
            value = (_foreign_item if shape == "item" else _foreign_seed)(cells, out, options.schema_id)
        return [RecordCells(value, message_keys.restored(cells, meta, change.key))]

    return write


def _restored(cells: Cells, members: Members, meta: Members, usual: Names) -> Cell:
    """A record as it was read: of these members, those that `meta` kept, and in their order."""
    members.update((name, value) for name, value in meta.items() if name in usual)
    if "extra" in meta:
        members.update(cells.members(meta["extra"]))
    lacks = _list(cells.common(meta.get("lacks", b"[]")))
    order = _list(cells.common(meta["order"])) if "order" in meta else [*usual, *members]
    return cells.json_object({name: members[name] for name in order if name in members and name not in lacks})


def _time(cells: Cells, out: Cell) -> Cell:
    """The commit time as digits; one that has no place is lost, if the user allows it."""
    time = out.change.commit_time
    early = cells.less(time, 1)
    cells.lose(out, early, "commit_time", _LOST["commit_time"])
    return cells.int_json(cells.first(cells.where(early, None, time), 0))


def _statement(out: Outgoing) -> bytes | None:
    """The statement in a change's `meta`, as JSON text."""
    found = json_text.members(out.change.meta).get("statement") if out.change.meta else None
    return found if found is not None and found[:1] == b'"' else None


def _whole(row: ImageColumns) -> tuple[Names, Members | None, Members | None, str]:
    """The key of a row of another dialect, the images with its columns, and a schema with all columns."""
    key, before = row.key or {}, row.before
    after = None if row.after is None else {**key, **row.after}
    if row.kind.op is Operation.DELETE or (before is not None and not key.keys() <= before.keys()):
        before = {**key, **(before or {})}
    names = tuple({**(after or {}), **(before or {})})
    return tuple(key), before, after, schema.described(row.kind.schema, names, tuple(key))


def _item(cells: Cells, out: Cell) -> Members:
    change = out.change
    return {
        **_USUAL,
        "commitTime": _time(cells, out),
        "kind": cells.each(lambda op: quote(KINDS.get(op, "")), change.op),
        "schema": cells.each(lambda table: quote((table and table.schema) or ""), change.table),
        "table": cells.each(lambda table: quote(table.name if table else ""), change.table),
    }


def _own_item(cells: Cells, out: Cell, meta: Members, by_number: bool) -> Cell:
    """The item that a change was read from."""
    change, members = out.change, _item(cells, out)
    row = by_rows(cells, change, _own_row, meta.get("keytypes"))
    members.update(zip(("columnnames", "columnvalues", "oldkeys"), row, strict=True))
    name = cells.fields(change.transaction).id
    members["id"] = cells.first(name, b"0")
    members["tx_id"] = cells.quoted(cells.first(name, "")) if "id" in meta else b'""'
    if "nextlsn" not in meta:
        members["nextlsn"], members["txPosition"] = map(cells.int_json, cells.components(change.position, 2))
    if "table_schema" in meta:
        listed = cells.each(schema.written_back, meta["table_schema"], change.schema, change.table, by_number)
        meta = {**meta, "table_schema": listed}
    return _restored(cells, members, meta, MEMBERS)


def _own_row(cells: Cells, row: ImageColumns, types: Cell) -> Sequence[Cell]:
    old = b"{}" if row.before is None else _old_keys(cells, row.before, types)
    if not row.after:
        return b"null", None, old
    return quote(list(row.after)), cells.array_of(row.after.values()), old


def _old_keys(cells: Cells, row: Members, types: Cell) -> Cell:
    members = {"keynames": quote(list(row)), "keytypes": types, "keyvalues": cells.array_of(row.values())}
    return cells.json_object(members)


def _foreign_item(cells: Cells, out: Cell, by_number: bool) -> Cell:
    """The item for a change that was read from something else."""
    change, members = out.change, _item(cells, out)
    place = _position(cells, out, members)
    declared = cells.fields(change.transaction)
    numbered = cells.holds(_is_number, declared.id)
    members["id"] = cells.first(cells.where(numbered, declared.id, None), b"0")
    members["tx_id"] = cells.where(numbered | ~cells.present(declared.id), b'""', cells.quoted(declared.id))
    order = cells.int_json(declared.order)
    elsewhere = cells.present(declared.id) & ~cells.equal(order, members["txPosition"])
    extras: dict[str, Cell] = {
        "op": None,
        "catalog": cells.each(lambda name: None if name is None else quote(name), cells.fields(change.table).catalog),
        "position": place,
        "order": cells.where(elsewhere, order, None),
        "total": cells.int_text(declared.total),
    }
    if cells.usually(cells.one_of(change.op, ROWS)):
        names = ("columnnames", "columnvalues", "oldkeys", "table_schema")
        *row, extras["op"], extras["before_image"], extras["after_image"] = by_rows(
            cells, change, _foreign_row, out.native, by_number
        )
        members.update(zip(names, row, strict=True))
    else:
        members.update(_control(out))
    members["changeling"] = cells.sparse(extras)
    return cells.json_object({name: members[name] for name in MEMBERS if name in members})


def _is_number(name: str | None) -> bool:
    return name is not None and name.isascii() and name.isdigit() and name[0] != "0" and int(name) < UINT64_END


def _position(cells: Cells, out: Cell, members: Members) -> Cell:
    """What the item's own members cannot express of a position."""
    text = cells.where(cells.mask(out.arrived), None, out.change.position)
    number, order = cells.components(text, 2)
    usual = cells.less(number, UINT64_END) & cells.less(order, INT64_END) & ~cells.equal(number, 0)
    odd = None
    if not cells.usually(usual | ~cells.present(text)):
        odd = position.decode(text)
        number, order = (
            part if part < end else 0 for part, end in zip((*odd, 0), (UINT64_END, INT64_END), strict=False)
        )
    members["nextlsn"], members["txPosition"] = (cells.int_json(cells.first(part, 0)) for part in (number, order))
    return None if odd is None else quote(odd)


def _foreign_row(cells: Cells, row: ImageColumns, native: bool, by_number: bool) -> Sequence[Cell]:
    kind, (key, before, after, text) = row.kind, _whole(row)
    known = schema_from_json(text).columns
    columns = [column.name for column in known]
    names, values, old, before_note, after_note = b"null", None, b"{}", None, None
    if after is not None:
        names, values = quote(list(after)), cells.array_of(after.values()) if after else None
        after_note = _noted(schema.after_image(KINDS[kind.op], list(after), columns), kind.after_image)
    if before:
        own = {column.name: types.names(column, native) for column in known}
        shown = [original.partition(":")[2] or wire for wire, original in (own[name] for name in before)]
        old = _old_keys(cells, before, quote(shown))
        actual = Image.KEY if kind.before_image is Image.NONE else kind.before_image
        before_note = _noted(schema.before_image(list(before), columns, key), actual)
    listed = schema.written(text, key, native, "named", kind.table, by_number)
    op = None if KINDS[kind.op] == kind.op.value else quote(kind.op)
    return names, values, old, listed, op, before_note, after_note


def _noted(seen: Image, actual: Image) -> bytes | None:
    return None if seen is actual else quote(actual)


def _control(out: Outgoing) -> Members:
    """`kind` and the columns of an item that touches no row; nothing where there is no such item."""
    change, kind = out.change, b'"DDL"'
    if change.op is Operation.TRUNCATE:
        return {"kind": b'"truncate"'}
    if change.op is Operation.MESSAGE:
        kind, columns = b'"message"', json_text.members(change.meta or b"{}")
    elif change.op is Operation.DDL:
        columns = {"query": _statement(out) or b'""'}
    elif change.op is Operation.COMMIT and change.transaction is not None:
        columns = {"query": quote(change.transaction.id.join(envelope.TRANSACTION_DONE))}
    else:
        out.lose("commit", "the item that ends a transaction names it, and this change names none")
        return {}
    values = json_text.join_array(columns.values()) if columns else None
    return {"kind": kind, "columnnames": quote(list(columns)), "columnvalues": values}


def _seed(cells: Cells, out: Cell, number: Cell) -> Members:
    change = out.change
    return {
        "ID": cells.int_json(number),
        "CommitTime": _time(cells, out),
        "Kind": cells.each(lambda op: quote(KINDS.get(op, "ddl").upper()), change.op),
        "Table": cells.each(lambda table: quote(schema.table_text(table) if table else ""), change.table),
    }


def _own_seed(cells: Cells, out: Cell, meta: Members, by_number: bool) -> Cell:
    """The record that a change was read from."""
    change = out.change
    (number,) = cells.components(change.position, 1)
    members = _seed(cells, out, cells.first(number, 0))
    listed = meta.get("TableSchema", b'"seed"')
    columns = cells.each(schema.column_names, listed, change.schema)
    members["Values"], members["OldValues"] = by_rows(cells, change, _own_seed_row, columns, "keys" in meta)
    listed = cells.each(schema.written_back, listed, change.schema, change.table, by_number)
    return _restored(cells, members, {**meta, "TableSchema": listed}, envelope.SEED_MEMBERS)


def _own_seed_row(cells: Cells, row: ImageColumns, columns: Cell, keys_alone: bool) -> Sequence[Cell]:
    names = cells.common(columns)
    old_names = tuple(row.before or ()) if keys_alone else names
    return _lists(cells, row.kind.op, _list_of(cells, row.after, names), _list_of(cells, row.before, old_names))


def _foreign_seed(cells: Cells, out: Cell, by_number: bool) -> Cell:
    """The record for a change that was read from something else, or from an item."""
    change = out.change
    is_row = cells.usually(cells.one_of(change.op, ROWS))
    if not is_row and change.op is not Operation.DDL:
        out.lose(change.op.value, "a record is an INSERT, an UPDATE, a DELETE or a DDL")
    lost = {
        "catalog": cells.present(cells.fields(change.table).catalog),
        "transaction": cells.present(cells.fields(change.transaction).id),
        "position": cells.present(change.position) & ~cells.mask(out.arrived),
    }
    for feature, where in lost.items():
        cells.lose(out, where, feature, _LOST[feature])
    members = _seed(cells, out, out.running)
    if is_row:
        partial = cells.equal(change.before_image, Image.PARTIAL) | cells.equal(change.after_image, Image.PARTIAL)
        cells.lose(out, partial, "partial", _LOST["partial"])
        row = by_rows(cells, change, _foreign_seed_row, out.native, by_number)
    else:
        statement = _statement(out)
        row = (cells.array_of([] if statement is None else [statement]), None, _DDL_COLUMNS)
    members.update(zip(("Values", "OldValues", "TableSchema"), row, strict=True))
    return cells.json_object(members)


def _foreign_seed_row(cells: Cells, row: ImageColumns, native: bool, by_number: bool) -> Sequence[Cell]:
    kind, (key, before, after, text) = row.kind, _whole(row)
    known = schema_from_json(text)
    if Image.PARTIAL in (kind.before_image, kind.after_image):
        # A partial row must not write NULL into the columns that it does not have.
        held = {**(after or {}), **(before or {})}
        known = msgspec.structs.replace(known, columns=tuple(c for c in known.columns if c.name in held), id=None)
        text = known.to_json()
    names = [column.name for column in known.columns]
    listed = schema.written(text, key, native, "seed", kind.table, by_number)
    return *_lists(cells, kind.op, _list_of(cells, after, names), _list_of(cells, before, names)), listed


def _lists(cells: Cells, op: Operation, new: Cell, old: Cell) -> Sequence[Cell]:
    """`Values` and `OldValues`."""
    if op is Operation.DELETE:
        return cells.first(old, b"[]"), None
    return new, old if KINDS[op] == "update" else None


def _list_of(cells: Cells, row: Members | None, names: Sequence[str]) -> Cell:
    """The values of these columns, if there is a row; those that it does not have are null."""
    return None if row is None else cells.array_of(row.get(name, b"null") for name in names)
