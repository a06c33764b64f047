"""The position of an event in XTDB's log: its transaction, its place inside it, and its place in the entire log."""

from typing import NamedTuple

from changeling.envelope.cells import Cell, Cells
from changeling.formats.format import Outgoing
from changeling.formats.transaction_progress import number_of
from changeling.model import position
from changeling.model.change import Transaction

INT64 = 2**63


class Place(NamedTuple):
    """The places of one event."""

    tx_id: Cell
    order: Cell
    total: Cell
    """None where the event belongs to no transaction."""


def places_of(cells: Cells, out: Cell, events: int) -> list[Place]:
    """The places of a change's events: one, or two where it moves its row to another key.

    Those of an event that was read are its own, and so are those of a change whose position is the number of its transaction and
    the order inside, or 0 where it has none.
    """
    number, order = cells.components(cells.where(out.arrived, None, out.change.position), 2)
    declared = cells.fields(out.change.transaction)
    together = cells.present(declared.id)
    own = cells.present(number)
    if not out.native:
        named = cells.equal(declared.id, cells.digits(number)) & cells.equal(declared.order, order)
        own &= ((together & named) | (~together & cells.equal(order, 0))) & cells.less(order, INT64 // 2)
    if events == 1 and (cells.many or not (out.halves or out.progress.moved)) and cells.only(own):
        out.placed = None if out.native else (number, order)
        return [Place(number, order, cells.where(together, cells.first(declared.total, number), None))]
    return _places(out, events)


def _places(out: Outgoing, events: int) -> list[Place]:
    """The places of events whose change has others.

    All events of a transaction have its id as `tx_id`, and are numbered from 0, unless the change itself declares all of it:
    its position is the id and the order inside. A position that begins with the id is the place in the entire log too.
    """
    change = out.change
    parts = position.decode(change.position) if change.position is not None and not out.arrived else ()
    tx_id, order, total = (
        _alone(out, parts, events) if change.transaction is None else _together(out, change.transaction, parts)
    )
    kept = parts[:-1] == (tx_id,) if out.halves else parts == (tx_id, order) and events == 1
    if parts and not kept:
        out.lose(
            "position", "XTDB orders by tx_id and the place inside the transaction, this position is of another kind"
        )
    out.placed = (tx_id, order + events - 1)
    return [Place(tx_id, order + number, total) for number in range(events)]


def _alone(out: Outgoing, parts: tuple[int, ...], events: int) -> Place:
    """A change without a transaction; its two events count as one, or their order would be unknown."""
    tx_id = parts[0] if len(parts) == 2 and (out.halves or parts[1] == 0) and parts[0] < INT64 else out.running
    return Place(tx_id, 0, tx_id if events > 1 else None)


def _together(out: Outgoing, transaction: Transaction, parts: tuple[int, ...]) -> Place:
    progress = out.progress
    tx_id = number_of(transaction.id, INT64)
    if tx_id is None:
        out.lose("transaction", f"tx_id is the id of the transaction as a number, and {transaction.id!r} is none")
        tx_id = progress.ordinal
    if transaction.order is not None and parts == (tx_id, transaction.order) and transaction.order < INT64 // 2:
        order = transaction.order + progress.moved
    else:
        order = progress.events
    if transaction.order not in (None, order):
        out.lose(
            "transaction",
            f"the events of a transaction are numbered {order} here, and this change declares the order {transaction.order}",
        )
    if transaction.total is None and parts[:1] != (tx_id,):
        out.lose("transaction", "total_order is the place in the entire log, and this change declares none")
    return Place(tx_id, order, tx_id if transaction.total is None else transaction.total)
