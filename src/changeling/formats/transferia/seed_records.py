"""Changes into records of Transferia's data model: seven members, and nothing else."""

from collections.abc import Sequence

import msgspec

from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.rows import Row, by_rows
from changeling.formats.transferia import control, schemas, table_text
from changeling.formats.transferia.envelope import KINDS, SEED_MEMBERS
from changeling.formats.transferia.items import timed
from changeling.model import json_text
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.table import TableName, schema_from_json

_DDL_COLUMNS = b'[{"name":"query","type":"utf8","key":false,"original_type":""}]'
"""The one value of a DDL record is its statement, under the name that Transferia's own DDL items give it."""
_ROWS = [operation.value for operation in KINDS]


def own(cells: Cells, out: Cell, meta: Members, schema_id: bool) -> Cell:
    """The record that a change was read from."""
    if not meta.keys().isdisjoint(("item", "order", "lacks", "extra")):
        cells.alone()
        if "item" in meta:
            return meta["item"]
    change = out.change
    listed = meta.get("TableSchema", b'"seed"')
    columns = cells.each(schemas.column_names, listed, change.schema)
    (number,) = cells.components(change.position, 1)
    values, old = by_rows(cells, change, _own_row, columns, "keys" in meta)
    members = _members(cells, out, cells.first(number, 0), change.commit_time, values, old)
    lacks = msgspec.json.decode(meta.get("lacks", b"[]"), type=set[str])
    if "TableSchema" not in lacks:
        members["TableSchema"] = cells.each(schemas.written_back, listed, change.schema, change.table, schema_id)
    members.update((name, value) for name, value in meta.items() if name in SEED_MEMBERS and name != "TableSchema")
    members = {name: members[name] for name in SEED_MEMBERS if name in members and name not in lacks}
    members.update(json_text.members(meta.get("extra", b"{}")))
    names = msgspec.json.decode(meta["order"], type=list[str]) if "order" in meta else members
    return cells.shell({name: members[name] for name in names})


def foreign(cells: Cells, out: Cell, meta: Members, schema_id: bool) -> Cell:
    """The record for a change that was read from something else, or from an item."""
    change = out.change
    is_row = cells.only(cells.one_of(change.op, _ROWS))
    if not is_row and change.op is not Operation.DDL:
        out.lose(change.op.value, "a record is an INSERT, an UPDATE, a DELETE or a DDL")
    _lose_places(cells, out)
    time = timed(cells, out)
    if is_row:
        partial = cells.equal(change.before_image, Image.PARTIAL) | cells.equal(change.after_image, Image.PARTIAL)
        cells.lose(out, partial, "partial", "Values is a list, where an absent column looks like NULL")
        values, old, listed = by_rows(cells, change, _foreign_row, out.native, schema_id)
    else:
        statement = control.statement_of(change.meta)
        values, old, listed = cells.array_of([] if statement is None else [statement]), None, _DDL_COLUMNS
    members = _members(cells, out, out.running, time, values, old)
    members["TableSchema"] = listed
    return cells.shell({name: members[name] for name in SEED_MEMBERS if name in members})


def _lose_places(cells: Cells, out: Cell) -> None:
    change = out.change
    cells.lose(
        out,
        cells.holds(_has_catalog, change.table),
        "catalog",
        "Table is the schema and the name, and cannot contain the catalog",
    )
    cells.lose(
        out,
        cells.present(cells.fields(change.transaction).id),
        "transaction",
        "ID differs for each change, and nothing says which were committed together",
    )
    cells.lose(
        out,
        cells.present(change.position) & ~cells.mask(out.arrived),
        "position",
        "ID is the running number of the change, not the source's own order",
    )


def _has_catalog(table: TableName | None) -> bool:
    return table is not None and table.catalog is not None


def _members(cells: Cells, out: Cell, number: Cell, time: Cell, values: Cell, old: Cell) -> Members:
    change = out.change
    return {
        "ID": cells.digits(number),
        "CommitTime": cells.digits(cells.first(time, 0)),
        "Kind": cells.each(_kind, change.op),
        "Table": cells.each(_table, change.table),
        "Values": values,
        "OldValues": old,
    }


def _kind(op: Operation) -> bytes:
    return quote(KINDS.get(op, "ddl").upper())


def _table(table: TableName | None) -> bytes:
    return quote("" if table is None else table_text.text(table))


def _own_row(cells: Cells, row: Row, columns: Cell, keys_alone: bool) -> Sequence[Cell]:
    names = cells.common(columns)
    old_names = tuple(row.before or ()) if keys_alone else names
    return _lists(
        cells, row.kind.op, _list(cells, row.after, names), row.before and _list(cells, row.before, old_names)
    )


def _foreign_row(cells: Cells, row: Row, native: bool, schema_id: bool) -> Sequence[Cell]:
    kind, key, before = row.kind, row.key or {}, row.before
    if kind.op is Operation.DELETE or before is not None:
        before = {**key, **(before or {})}
    after = None if row.after is None else {**key, **row.after}
    held = {**(after or {}), **(before or {})}
    text = schemas.described(kind.schema, tuple(held), tuple(key))
    if Image.PARTIAL in (kind.before_image, kind.after_image):
        text = _narrowed(text, frozenset(held))
    names = tuple(column.name for column in schema_from_json(text).columns)
    listed = schemas.written(text, tuple(key), native, "seed", kind.table, schema_id)
    old = None if before is None else _list(cells, before, names)
    return *_lists(cells, kind.op, _list(cells, after, names), old), listed


def _narrowed(schema: str, names: frozenset[str]) -> str:
    """The schema with only these columns: a partial row must not write NULL into the others."""
    known = schema_from_json(schema)
    columns = tuple(column for column in known.columns if column.name in names)
    return msgspec.structs.replace(known, columns=columns, id=None).to_json()


def _lists(cells: Cells, op: Operation, new: Cell, old: Cell) -> Sequence[Cell]:
    """`Values` and `OldValues`."""
    if op is Operation.DELETE:
        return cells.first(old, b"[]"), None
    return new, old if KINDS[op] == "update" else None


def _list(cells: Cells, row: Members | None, names: Sequence[str]) -> Cell:
    held = row or {}
    return cells.array_of(held.get(name, b"null") for name in names)
