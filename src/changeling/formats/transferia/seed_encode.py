"""Changes into records of Transferia's data model: seven members, and nothing else."""

from collections.abc import Mapping, Sequence

import msgspec

from changeling.formats.format import Outgoing
from changeling.formats.transferia import control, item_encode, schemas, table_text
from changeling.formats.transferia.envelope import KINDS, SEED_MEMBERS
from changeling.model import json_text, position
from changeling.model.change import Change
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import schema_from_json

_DDL_COLUMNS = b'[{"name":"query","type":"utf8","key":false,"original_type":""}]'
"""The one value of a DDL record is its statement, under the name that Transferia's own DDL items give it."""


def own(change: Change, meta: Mapping[str, bytes], schema_id: bool) -> bytes:
    """The record that a change was read from."""
    if "item" in meta:
        return meta["item"]
    kept = meta.get("TableSchema", b'"seed"')
    columns = schemas.column_names(kept, change.schema)
    old_columns = tuple(json_text.members(change.before or b"{}")) if "keys" in meta else columns
    members = _members(change, position.decode(change.position or "010")[0], columns, old_columns)
    lacks = msgspec.json.decode(meta.get("lacks", b"[]"), type=set[str])
    if "TableSchema" not in lacks:
        members["TableSchema"] = schemas.written_back(kept, change, schema_id)
    members.update((name, value) for name, value in meta.items() if name in SEED_MEMBERS and name != "TableSchema")
    ordered = [(name, members[name]) for name in SEED_MEMBERS if name in members and name not in lacks]
    whole = {**dict(ordered), **json_text.members(meta.get("extra", b"{}"))}
    names = msgspec.json.decode(meta["order"], type=list[str]) if "order" in meta else whole
    return json_text.join((name, whole[name]) for name in names)


def foreign(out: Outgoing, schema_id: bool) -> bytes:
    """The record for a change that was read from something else, or from an item."""
    if out.change.op not in KINDS and out.change.op is not Operation.DDL:
        out.lose(out.change.op.value, "a record is an INSERT, an UPDATE, a DELETE or a DDL")
    _lose_places(out)
    item_encode.check_time(out)
    change = out.change
    if change.op is Operation.DDL:
        statement = control.statement_of(change.meta)
        members = _members(change, out.number, (), ())
        members["Values"] = json_text.join_array([] if statement is None else [statement])
        members["TableSchema"] = _DDL_COLUMNS
    else:
        members = _row(out, schema_id)
    return json_text.join((name, members[name]) for name in SEED_MEMBERS if name in members)


def _lose_places(out: Outgoing) -> None:
    change = out.change
    if change.table is not None and change.table.catalog is not None:
        out.lose("catalog", "Table is the schema and the name, and cannot contain the catalog")
    if change.transaction is not None:
        out.lose("transaction", "ID differs for each change, and nothing says which were committed together")
    if change.position is not None and not out.arrived:
        out.lose("position", "ID is the running number of the change, not the source's own order")


def _row(out: Outgoing, schema_id: bool) -> dict[str, bytes]:
    change = out.change
    partial = Image.PARTIAL in (change.before_image, change.after_image)
    if partial:
        out.lose("partial", "Values is a list, where an absent column looks like NULL")
    key = json_text.members(change.key or b"{}")
    if change.op is Operation.DELETE or change.before is not None:
        change = msgspec.structs.replace(change, before=_filled(key, change.before))
    if change.after is not None:
        change = msgspec.structs.replace(change, after=_filled(key, change.after))
    held = {**json_text.members(change.after or b"{}"), **json_text.members(change.before or b"{}")}
    text = schemas.described(change.schema, tuple(held), tuple(key))
    if partial:
        text = _narrowed(text, frozenset(held))
    columns = tuple(column.name for column in schema_from_json(text).columns)
    members = _members(change, out.number, columns, columns)
    members["TableSchema"] = schemas.written(text, tuple(key), out.native, "seed", change.table, schema_id)
    return members


def _filled(key: Mapping[str, bytes], image: str | bytes | None) -> bytes:
    return json_text.join({**key, **json_text.members(image or b"{}")}.items())


def _narrowed(schema: str, names: frozenset[str]) -> str:
    """The schema with only these columns: a partial row must not write NULL into the others."""
    known = schema_from_json(schema)
    kept = tuple(column for column in known.columns if column.name in names)
    return msgspec.structs.replace(known, columns=kept, id=None).to_json()


def _members(change: Change, number: int, columns: Sequence[str], old_columns: Sequence[str]) -> dict[str, bytes]:
    kind = KINDS.get(change.op, "ddl").upper()
    found = {
        "ID": b"%d" % number,
        "CommitTime": b"%d" % (change.commit_time or 0),
        "Kind": quote(kind),
        "Table": quote("" if change.table is None else table_text.text(change.table)),
    }
    if kind == "DELETE":
        found["Values"] = _list(change.before, old_columns)
    else:
        found["Values"] = _list(change.after, columns)
        if kind == "UPDATE" and change.before is not None:
            found["OldValues"] = _list(change.before, old_columns)
    return found


def _list(image: str | bytes | None, columns: Sequence[str]) -> bytes:
    row = json_text.members(image or b"{}")
    return json_text.join_array(row.get(name, b"null") for name in columns)
