"""Items that touch no row: snapshot framing, DDL, truncation, ends of transactions, messages. They are kept in full."""

from changeling.formats.transferia.envelope import (
    CONTROL_KINDS,
    MESSAGE_PREFIXES,
    ROW_KINDS,
    TRANSACTION_DONE,
    Item,
)
from changeling.model import json_text
from changeling.model.change import Change, Transaction
from changeling.model.errors import Rejected, nearest
from changeling.model.json_text import quote
from changeling.model.operation import Operation


def decode(item: Item, value: bytes) -> Change:
    """The control change of an item; raises `Rejected` with the closest known name where its kind is unknown."""
    op = CONTROL_KINDS.get(item.kind)
    if op is None:
        if not item.kind.startswith(MESSAGE_PREFIXES):
            raise Rejected(f"unknown kind {item.kind!r}; {nearest(item.kind, [*ROW_KINDS, *CONTROL_KINDS])}")
        op = Operation.MESSAGE
    meta = [("kind", quote(item.kind))]
    transaction = None
    if op is Operation.DDL and (statement := _statement(item)) is not None:
        transaction = _done(statement, item)
        if transaction is not None:
            op = Operation.COMMIT
        meta.append(("statement", quote(statement)))
    meta.append(("item", json_text.compact(value)))
    return Change(op=op, transaction=transaction, meta=json_text.join(meta))


def _statement(item: Item) -> str | None:
    """The text of a DDL item: its one value, else its query."""
    if item.columnvalues and len(item.columnvalues) == 1 and bytes(item.columnvalues[0])[:1] == b'"':
        return json_text.string(item.columnvalues[0])
    return item.query or None


def _done(statement: str, item: Item) -> Transaction | None:
    before, behind = TRANSACTION_DONE
    if not (statement.startswith(before) and statement.endswith(behind)):
        return None
    name = statement[len(before) : -len(behind)].strip() or item.tx_id or str(item.id or 0)
    return Transaction(name, complete=True)


def members(op: Operation, statement: bytes | None, transaction: Transaction | None) -> dict[str, bytes]:
    """`kind` and the columns of a control item for a change of another dialect; empty where there is no such item."""
    if op is Operation.TRUNCATE:
        return {"kind": b'"truncate"', "columnnames": b"null"}
    if op is Operation.COMMIT and transaction is not None:
        statement = quote(transaction.id.join(TRANSACTION_DONE))
    elif op is not Operation.DDL:
        return {}
    return {
        "kind": b'"DDL"',
        "columnnames": b'["query"]',
        "columnvalues": json_text.join_array([b'""' if statement is None else statement]),
    }


def message(meta: str | bytes | None) -> dict[str, bytes]:
    """`kind` and the columns of an item that passes on another dialect's message: the members of its `meta`."""
    columns = json_text.members(meta or b"{}")
    found = {"kind": b'"message"', "columnnames": quote(list(columns))}
    if columns:
        found["columnvalues"] = json_text.join_array(columns.values())
    return found


def statement_of(meta: str | bytes | None) -> bytes | None:
    """The statement in a change's `meta`, as JSON text."""
    found = json_text.members(meta).get("statement") if meta else None
    return found if found is not None and found[:1] == b'"' else None
