"""Transferia's records into changes: change items, the record of its data model, and arrays of them.

What a change does not contain of its record goes to `meta`, under the record's own names.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from changeling.envelope import message_keys
from changeling.envelope.cells import Cell, Cells, Members, MemberStruct, Names
from changeling.envelope.reading import ChangeCells, Reader
from changeling.formats.member_order import follows, in_order
from changeling.formats.options import ReadOptions
from changeling.formats.transferia import envelope, schema
from changeling.formats.transferia.envelope import KINDS, OPERATIONS, Extras, Serialization, Shape
from changeling.formats.transferia.schema import Table
from changeling.model import json_text
from changeling.model.change import Change, Record, Transaction
from changeling.model.errors import Rejected, nearest
from changeling.model.json_text import quote, string
from changeling.model.operation import Image, Operation
from changeling.model.position import encode
from changeling.model.table import TableName

ChangeAndMeta: TypeAlias = tuple[ChangeCells, Members]
"""A change, and the members of its `meta`."""
_item, _seed = (msgspec.json.Decoder(form).decode for form in (envelope.Item, envelope.SeedRecord))
_list = msgspec.json.Decoder(list[str] | None).decode
_column_names, _old_names = json_text.named("columnnames", _list), json_text.named("oldkeys.keynames", _list)
_EXTRAS = MemberStruct("changeling", Extras)
_EMPTY = b'""'
_OPTIONAL = ("columnvalues", "changeling")
_IMAGES = ("key", "before", "after", "before_image", "after_image")
_HELD = (Image.FULL, Image.PARTIAL, Image.KEY)
_COUNTS = ("{names} columnnames, but {} columnvalues", "{names} keynames, but {} keyvalues")
_SEED_COUNTS = ("{} Values, but the schema has {names} columns", "{} OldValues, but the schema has {names} columns")


class TransferiaRead(ReadOptions, frozen=True, kw_only=True):
    """Options of a Transferia reader."""

    shape: Shape | None = None
    """Change items, or records of the data model; by default each record shows which it is."""
    serialization: Serialization = "json"
    """How values are serialized; proto is refused."""


def reader(options: TransferiaRead) -> Reader:
    """A function from a record to its changes: one, or those of an array."""
    envelope.refuse_proto(options.serialization)
    item, seed = _item_reader(options), _seed_reader(options)

    def one(cells: Cells, value: Cell, message_key: Cell) -> ChangeCells:
        names = cells.names(value)
        shown = "kind" not in names and not {"ID", "Kind"}.isdisjoint(names)
        is_seed = options.shape == "seed" or (options.shape is None and shown)
        change, meta = (seed if is_seed else item)(cells, value, names)
        meta |= message_keys.kept(cells, message_key, change.key)
        return change._replace(meta=cells.sparse(meta))

    def read(cells: Cells, record: Record) -> ChangeCells | Sequence[Change]:
        value = record.value
        if value is None:
            cells.one_by_one()
            return [message_keys.tombstone(record, options.table)]
        if not cells.branch(cells.starts(value, b"[")):
            return one(cells, value, record.key)
        if cells.is_columnar:
            (only,) = cells.items(value, 1, str)
            return one(cells, only, record.key)
        items = json_text.items(value)
        if not items:
            raise Rejected("an empty array: there is no change item in it")
        changes = []
        for place, part in enumerate(items, 1):
            try:
                changes.append(Change(**one(cells, part, record.key)._asdict()))
            except ValueError as error:
                raise Rejected(f"item {place} of {len(items)}: {error}") from None
        return changes

    return read


def _numbers(cells: Cells, value: Cell, members: Members, check: Callable[[Any], Any], names: Names) -> Sequence[Cell]:
    """The numbers in these members, 0 where one is missing; all members of a record by itself are checked."""
    if not cells.is_columnar:
        checked = check(value)
        return [checked.get(name) or 0 for name in names]
    found = [cells.parse_natural_json(members[name]) if name in members else 0 for name in names]
    cells.usually(cells.all_present(found))
    return found


def _unusual_members(cells: Cells, members: Members, names: Names, usual: Names, optional: Names) -> Members:
    """What `meta` keeps of members that are not the usual ones in their order."""
    found: Members = {}
    if lacks := [name for name in usual if name not in names and name not in optional]:
        found["lacks"] = quote(lacks)
    if extra := {name: members[name] for name in names if name not in usual}:
        found["extra"] = cells.json_object(extra)
    if not in_order(names, usual):
        found["order"] = quote(names)
    return found


def _time(cells: Cells, nanos: Cell) -> Cell:
    """A commit time; none where it is 0, or does not fit into 64 bits with a sign."""
    return cells.where(cells.equal(nanos, 0) | ~cells.less(nanos, envelope.INT64_END), None, nanos)


class _Rows(NamedTuple):
    """What the rows of some records share."""

    table: Table
    kind: str
    new: Sequence[str]
    """The columns of the values after the change."""
    old: Sequence[str]
    before: str
    """The row before the change: the `old` values, the `new` ones of a delete without old ones, or none."""
    in_full: bool = False
    """Lists have a value for each column of the table."""


def _item_reader(options: ReadOptions) -> Callable[[Cells, Cell, Names], ChangeAndMeta]:
    @functools.lru_cache(maxsize=4096)
    def table_of(catalog: str | None, space: bytes, name: bytes, listed: bytes | None) -> Table:
        named = TableName(catalog, string(space) or None, string(name))
        table = named if named.name else options.table
        if table is None:
            raise Rejected("the item names no table: say which with --table")
        return schema.table(listed, table, options)

    def read(cells: Cells, value: Cell, names: Names) -> ChangeAndMeta:
        if "kind" not in names:
            cells.refuse("not a change item: it has no `kind`")
        item = cells.members(value, optional=_OPTIONAL, usual=envelope.MEMBERS)
        numbers = _numbers(cells, value, item, _item, ("id", "nextlsn", "commitTime", "txPosition"))
        noted, kind = item.get("changeling"), cells.each(string, item["kind"])
        extras = cells.struct(_EXTRAS, cells.first(noted, b"{}")) if cells.any(cells.present(noted)) else Extras()
        change, meta = _placed(cells, cells.each(_operation, kind, extras.op), item, numbers, extras)
        named = (extras.catalog, item.get("schema", _EMPTY), item.get("table", _EMPTY), item.get("table_schema"))
        unnamed = cells.equal(named[2], _EMPTY)
        if not cells.usually(cells.one_of(change.op, envelope.ROWS)):
            if not unnamed:
                table = table_of(*named)
                change = change._replace(table=table.name, schema=table.schema)
            return _control(change, item, value, extras)
        table = cells.each(table_of, *named)
        change, columns = _row(cells, change, item, kind, table, extras)
        for member in ("part", "query"):
            text = item.get(member, _EMPTY)
            cells.expect(cells.starts(text, b'"'))
            meta[member] = cells.where(cells.equal(text, _EMPTY), None, text)
        # An item that names no table is of the one that the user named.
        meta |= {member: cells.where(unnamed, item.get(member), None) for member in ("schema", "table")}
        meta["kind"] = cells.where(cells.one_of(kind, list(KINDS.values())), None, item["kind"])
        unusual = _unusual_members(cells, item, names, envelope.MEMBERS, ("kind", "table_schema", *_OPTIONAL))
        return change, {"table_schema": cells.fields(table).kept, **columns, **meta, "changeling": noted, **unusual}

    return read


def _operation(kind: str, declared: Operation | None) -> Operation:
    is_message = kind not in OPERATIONS and kind.startswith(envelope.MESSAGE_PREFIXES)
    own = Operation.MESSAGE if is_message else _known("kind", kind, OPERATIONS)
    if declared is None or declared is own:
        return own
    if KINDS.get(declared) != kind:
        raise Rejected(f"kind {kind!r} cannot be the operation {declared.value!r} that `changeling` declares")
    return declared


def _known(member: str, kind: str, operations: dict[str, Operation]) -> Operation:
    if kind not in operations:
        raise Rejected(f"unknown {member} {kind!r}; {nearest(kind, operations)}")
    return operations[kind]


def _placed(cells: Cells, op: Cell, item: Members, numbers: Sequence[Cell], extras: Extras) -> ChangeAndMeta:
    """Position, time and transaction of an item, and what they cannot express exactly."""
    number, lsn, time, order = numbers
    unplaced, declared = cells.equal(lsn, 0), cells.present(extras.position)
    position = cells.where(unplaced, None, cells.position(lsn, order))
    if not cells.usually(~declared):
        position = encode(*(extras.position or ()))
    text = cells.where(cells.equal(item.get("tx_id"), _EMPTY), None, item.get("tx_id"))
    name = cells.first(cells.text(text), cells.where(cells.equal(number, 0), None, cells.int_text(number)))
    place = cells.where(cells.equal(extras.order, envelope.OWN_PLACE), order, extras.order)
    transaction = cells.transaction(name, place, extras.total)
    change = ChangeCells(op=op, position=position, commit_time=_time(cells, time), transaction=transaction)
    return change, {
        "nextlsn": cells.where(unplaced | declared, cells.int_json(lsn), None),
        "txPosition": cells.where((unplaced | declared) & ~cells.equal(order, 0), cells.int_json(order), None),
        "commitTime": cells.where(cells.less(time, envelope.INT64_END), None, cells.int_json(time)),
        "id": cells.where(cells.present(text), cells.int_json(number), None),
    }


def _control(change: ChangeCells, item: Members, value: bytes, extras: Extras) -> ChangeAndMeta:
    """The change of an item that touches no row; the item is kept in full."""
    meta = {"kind": item["kind"]}
    if change.op is Operation.DDL and (statement := _statement(item)) is not None:
        meta["statement"] = quote(statement)
        before, behind = envelope.TRANSACTION_DONE
        if statement.startswith(before) and statement.endswith(behind):
            name = statement[len(before) : -len(behind)].strip() or (change.transaction or Transaction("0")).id
            order = None if extras.order == envelope.OWN_PLACE else extras.order
            done = Transaction(name, order, extras.total, complete=True)
            change = change._replace(op=Operation.COMMIT, transaction=done)
    return change, {**meta, "item": json_text.compact(value)}


def _statement(item: Members) -> str | None:
    """The text of a DDL item: its one value, else its query."""
    values = _values(item.get("columnvalues"))
    if len(values) == 1 and values[0][:1] == b'"':
        return string(values[0])
    return string(item.get("query", _EMPTY)) or None


def _values(raw: bytes | None) -> list[bytes]:
    return [] if raw in (None, b"null") else json_text.items(raw)


def _row(cells: Cells, change: ChangeCells, item: Members, kind: Cell, table: Cell, extras: Extras) -> ChangeAndMeta:
    """The change of an item of a row, and what `meta` keeps of its columns."""
    names, keys = item.get("columnnames"), item.get("oldkeys")
    there, empty = cells.starts(keys, b"{"), cells.equal(keys, b"{}")
    cells.expect(there | cells.equal(keys, b"null") | ~cells.present(keys))
    old_names, types, old_values, odd = cells.by_value(_old_keys, there & ~empty, keys)
    rows = cells.each(_rows, table, kind, cells.or_null(names), cells.or_null(old_names))
    noted = (cells.as_text(extras.before_image), cells.as_text(extras.after_image))
    change = _with_row(cells, change, rows, cells.value(item, "columnvalues"), old_values, *noted)
    listed = cells.present(change.after) & ~cells.equal(change.after, b"{}")
    in_old, in_new = (cells.equal(cells.fields(rows).before, side) for side in ("old", "new"))
    return change, {
        "columnnames": cells.where(listed | cells.equal(names, b"null"), None, names),
        "columnvalues": cells.where(listed, None, item.get("columnvalues")),
        "keytypes": cells.where(in_old, types, None),
        "oldkeys": cells.where(in_old, odd, cells.where(empty & ~in_new, None, keys)),
    }


def _with_row(cells: Cells, change: ChangeCells, rows: Cell, *lists: Cell) -> ChangeCells:
    """The change with its row, by the arguments of `_images`."""
    table, images = cells.fields(cells.fields(rows).table), cells.by_value(_images, rows, *lists)
    return change._replace(table=table.name, schema=table.schema, **dict(zip(_IMAGES, images, strict=True)))


def _old_keys(cells: Cells, there: bool, text: Cell) -> Sequence[Cell]:
    """The names, types and values of the old keys, and their text where they have others, or another order."""
    if not there:
        return None, None, None, None
    names, keys = cells.names(text), cells.members(text)
    odd = None if follows(names, envelope.OLD_KEYS, ()) else text
    return keys.get("keynames"), keys.get("keytypes"), cells.value(keys, "keyvalues"), odd


def _rows(table: Table, kind: str, columns: bytes, old_columns: bytes) -> _Rows:
    new, old = _column_names(columns) or [], _old_names(old_columns) or []
    for names in (new, old):
        if len(set(names)) < len(names):
            raise Rejected(f"a column is named twice: {', '.join(names)}")
    before = "old" if old and kind != "insert" else "new" if new and kind == "delete" else ""
    return _Rows(table, kind, new, old, before)


def _columns(cells: Cells, names: Sequence[str], values: Cell, counts: str) -> Members:
    """The columns of a list of values, which may be missing where there are none."""
    wrong = functools.partial(counts.format, names=len(names))
    return dict(zip(names, cells.items(cells.first(values, b"[]"), len(names), wrong), strict=True))


def _images(
    cells: Cells, rows: _Rows, values: Cell, old_values: Cell, noted_before: Cell = None, noted_after: Cell = None
) -> Sequence[Cell]:
    """The key, the images, and how complete they are: as Changeling itself noted, else as their columns show."""
    table, kind, names, old_names, source, in_full = rows
    key, is_delete = table.key, kind == "delete"
    from_old = is_delete and source != "new"
    for name in key:
        if name not in old_names and (from_old or name not in names):
            cells.refuse(f"the item lacks key column {name!r}: neither columnnames nor oldkeys names it")
    counts = _SEED_COUNTS if in_full else _COUNTS
    new, old = _columns(cells, names, values, counts[0]), _columns(cells, old_names, old_values, counts[1])
    held = old if from_old else {**old, **new}
    before, before_image, after, after_image = None, Image.NONE, None, Image.NONE
    if source:
        columns = old if source == "old" else new
        before = cells.json_object(columns)
        before_image = _image(cells, noted_before, schema.before_image(tuple(columns), table.columns, key))
        if in_full and key and before_image is Image.FULL:
            # Of a row whose key alone is known, the other values are null.
            others = (cells.equal(value, b"null") for name, value in columns.items() if name not in key)
            alone = functools.reduce(operator.and_, others)
            before = cells.where(alone, cells.json_object({name: columns[name] for name in key}), before)
            before_image = cells.where(alone, Image.KEY, Image.FULL)
    if not is_delete:
        after = cells.json_object(new)
        after_image = _image(cells, noted_after, schema.after_image(kind, names, table.columns))
    return cells.key({name: held[name] for name in key}) if key else None, before, after, before_image, after_image


def _image(cells: Cells, noted: Cell, shown: Image) -> Cell:
    return cells.where(cells.one_of(noted, _HELD), noted, shown)


def _seed_reader(options: ReadOptions) -> Callable[[Cells, Cell, Names], ChangeAndMeta]:
    def table_name(raw: bytes) -> TableName | None:
        return options.table if raw in (b"null", _EMPTY) else schema.table_name(string(raw))

    @functools.lru_cache(maxsize=4096)
    def table_of(raw: bytes, listed: bytes | None) -> Table:
        name = table_name(raw)
        if name is None:
            raise Rejected("the record names no table: say which with --table")
        table = schema.table(listed, name, options)
        if not table.columns:
            raise Rejected("no TableSchema: the columns of Values are unknown; give them with --columns or --schema")
        if missing := [column for column in table.key if column not in table.columns]:
            raise Rejected(f"the schema lacks the key columns {', '.join(missing)}")
        return table

    def read(cells: Cells, value: Cell, names: Names) -> ChangeAndMeta:
        if not {"ID", "Kind"}.issubset(names):
            cells.one_by_one()
        record = cells.members(value, optional=("OldValues",), usual=envelope.SEED_MEMBERS)
        number, nanos = _numbers(cells, value, record, _seed, ("ID", "CommitTime"))
        op = cells.each(lambda kind: _known("Kind", string(kind), envelope.SEED_KINDS), record["Kind"])
        values, old = record.get("Values"), record.get("OldValues")
        has_old = cells.present(old) & ~cells.matches(old, r"null|\[\s*\]")
        cells.expect(
            ~has_old | cells.equal(op, Operation.UPDATE),
            lambda: f"OldValues on {string(record['Kind'])}: they are filled only for UPDATE",
        )
        change = ChangeCells(op=op, position=cells.position(number), commit_time=_time(cells, nanos))
        name, time, meta = record.get("Table", b"null"), record.get("CommitTime"), {"shape": b'"seed"'}
        if not cells.usually(~cells.equal(op, Operation.DDL)):
            statement = _values(values)[:1]
            if statement and statement[0][:1] == b'"':
                meta["statement"] = statement[0]
            return change._replace(table=table_name(name)), {**meta, "item": json_text.compact(value)}
        table = cells.each(table_of, name, record.get("TableSchema"))
        known = cells.fields(table)
        # A list may have only the values of the key.
        short = not cells.is_columnar and len(_values(old if has_old else values)) == len(table.key) != len(
            table.columns
        )
        rows = cells.each(_seed_rows, table, op, has_old, short)
        change = _with_row(cells, change, rows, cells.value(record, "Values"), cells.where(has_old, old, None))
        plain = cells.less(nanos, envelope.INT64_END) & ~cells.equal(time, b"null")
        return change, {
            **meta,
            "keys": b"true" if short and (has_old or op is Operation.DELETE) else None,
            "TableSchema": cells.where(cells.equal(known.kept, b'"seed"'), None, known.kept),
            "CommitTime": cells.where(plain, None, time),
            "Table": cells.each(_kept_name, record.get("Table"), known.name),
            "OldValues": cells.where(has_old, None, old),
            **_unusual_members(cells, record, names, envelope.SEED_MEMBERS, ("ID", "Kind", "OldValues")),
        }

    return read


def _kept_name(raw: bytes | None, name: TableName) -> bytes | None:
    """A table's name, where it is not spelled as it is written."""
    return None if raw == quote(schema.table_text(name)) else raw


def _seed_rows(table: Table, op: Operation, has_old: bool, short: bool) -> _Rows:
    kind, names = KINDS[op], table.key if short else table.columns
    if op is Operation.DELETE:
        return _Rows(table, kind, names, (), "new", in_full=True)
    return _Rows(table, kind, table.columns, names if has_old else (), "old" if has_old else "", in_full=True)
