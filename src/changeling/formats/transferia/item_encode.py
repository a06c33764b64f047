"""Changes into change items: members in the order in which Transferia itself writes them."""

from collections.abc import Mapping

import msgspec

from changeling.formats.format import Outgoing
from changeling.formats.transferia import control, schemas, type_names
from changeling.formats.transferia.envelope import INT64, KINDS, MEMBERS, UINT64, Extras
from changeling.model import json_text, position
from changeling.model.change import Change, Transaction
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import schema_from_json

_HEADS = tuple((name, b'"%b":' % name.encode()) for name in MEMBERS)
_names = msgspec.json.Decoder(list[str]).decode


def own(change: Change, meta: Mapping[str, bytes], schema_id: bool) -> bytes:
    """The item that a change was read from."""
    if "item" in meta:
        return meta["item"]
    members = _members(change)
    members.update(_row(change, meta.get("keytypes")))
    if change.transaction is not None:
        name, text = change.transaction.id, quote(change.transaction.id)
        members.update({"tx_id": text} if "id" in meta else {"id": name.encode()})
    if "nextlsn" not in meta and change.position is not None:
        members["nextlsn"], members["txPosition"] = map(_digits, position.decode(change.position))
    members.update((name, value) for name, value in meta.items() if name in MEMBERS)
    if "table_schema" in meta:
        members["table_schema"] = schemas.written_back(meta["table_schema"], change, schema_id)
    for name in _names(meta["lacks"]) if "lacks" in meta else ():
        members.pop(name, None)
    if "order" in meta:
        members.update(json_text.members(meta.get("extra", b"{}")))
        return json_text.join((name, members[name]) for name in _names(meta["order"]))
    written = _written(members)
    return written if "extra" not in meta else b"%b,%b" % (written[:-1], meta["extra"][1:])


def _written(members: Mapping[str, bytes]) -> bytes:
    return b"{%b}" % b",".join([head + members[name] for name, head in _HEADS if name in members])


def _digits(number: int) -> bytes:
    return b"%d" % number


def _members(change: Change) -> dict[str, bytes]:
    table = change.table
    return {
        "id": b"0",
        "nextlsn": b"0",
        "commitTime": _digits(change.commit_time or 0),
        "txPosition": b"0",
        "kind": quote(KINDS.get(change.op, "")),
        "schema": quote((table and table.schema) or ""),
        "table": quote(table.name if table else ""),
        "part": b'""',
        "columnnames": b"null",
        "oldkeys": b"{}",
        "tx_id": b'""',
        "query": b'""',
    }


def _row(change: Change, key_types: bytes | None) -> dict[str, bytes]:
    found = {}
    if change.after is not None and (columns := json_text.members(change.after)):
        found["columnnames"] = quote(list(columns))
        found["columnvalues"] = json_text.join_array(columns.values())
    if change.before is not None:
        found["oldkeys"] = _old_keys(json_text.members(change.before), key_types)
    return found


def _old_keys(row: Mapping[str, bytes], types: bytes | None) -> bytes:
    kept = [] if types is None else [("keytypes", types)]
    return json_text.join([("keynames", quote(list(row))), *kept, ("keyvalues", json_text.join_array(row.values()))])


def foreign(out: Outgoing, schema_id: bool) -> bytes:
    """The item for a change that was read from something else."""
    check_time(out)
    change, extras = out.change, Extras()
    members = _members(change)
    _add_position(out, members, extras)
    if change.transaction is not None:
        _add_transaction(change.transaction, members, extras)
    if change.table is not None:
        extras.catalog = change.table.catalog
    if change.op in KINDS:
        _add_row(out, members, extras, schema_id)
    else:
        members.update(
            control.message(change.meta)
            if change.op is Operation.MESSAGE
            else control.members(change.op, control.statement_of(change.meta), change.transaction)
        )
        if change.op is Operation.COMMIT and change.transaction is None:
            out.lose("commit", "the item that ends a transaction names it, and this change names none")
    if extras != Extras():
        members["changeling"] = quote(extras)
    return _written(members)


def check_time(out: Outgoing) -> None:
    """Removes a time that an unsigned count of nanoseconds cannot express, if the user allows it."""
    time = out.change.commit_time
    if time is not None and time <= 0:
        out.lose("commit_time", "the commit time is an unsigned count of nanoseconds, and 0 means none")
        out.change = msgspec.structs.replace(out.change, commit_time=None)


def _add_position(out: Outgoing, members: dict[str, bytes], extras: Extras) -> None:
    if out.arrived or out.change.position is None:
        return
    parts = position.decode(out.change.position)
    number, order = parts[0], parts[1] if len(parts) > 1 else 0
    if number < UINT64:
        members["nextlsn"] = _digits(number)
    if order < INT64:
        members["txPosition"] = _digits(order)
    if len(parts) != 2 or not 0 < number < UINT64 or order >= INT64:
        extras.position = list(parts)


def _add_transaction(transaction: Transaction, members: dict[str, bytes], extras: Extras) -> None:
    name = transaction.id
    if name.isascii() and name.isdigit() and name[0] != "0" and int(name) < UINT64:
        members["id"] = name.encode()
    else:
        members["tx_id"] = quote(name)
    extras.total = transaction.total
    order = b"null" if transaction.order is None else _digits(transaction.order)
    if order != members["txPosition"]:
        extras.order = transaction.order


def _add_row(out: Outgoing, members: dict[str, bytes], extras: Extras, schema_id: bool) -> None:
    change = out.change
    key = json_text.members(change.key or b"{}")
    after = None if change.after is None else {**key, **json_text.members(change.after)}
    before = None if change.before is None else json_text.members(change.before)
    if change.op is Operation.DELETE or (before is not None and not key.keys() <= before.keys()):
        before = {**key, **(before or {})}
    text = schemas.described(change.schema, tuple({**(after or {}), **(before or {})}), tuple(key))
    schema = schema_from_json(text)
    columns = [column.name for column in schema.columns]
    if after is not None:
        members["columnnames"] = quote(list(after))
        if after:
            members["columnvalues"] = json_text.join_array(after.values())
        seen = schemas.after_image(KINDS[change.op], list(after), columns)
        extras.after_image = None if seen is change.after_image else change.after_image
    if before:
        names = {column.name: type_names.names(column, out.native) for column in schema.columns}
        types = [original.partition(":")[2] or wire for wire, original in (names[name] for name in before)]
        members["oldkeys"] = _old_keys(before, quote(types))
        seen = schemas.before_image(list(before), columns, list(key))
        actual = Image.KEY if change.before_image is Image.NONE else change.before_image
        extras.before_image = None if seen is actual else actual
    members["table_schema"] = schemas.written(text, tuple(key), out.native, "named", change.table, schema_id)
    if KINDS[change.op] != change.op.value:
        extras.op = change.op
