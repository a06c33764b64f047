"""The position of an event in its source's log, by the connector that read it."""

import re
from collections.abc import Callable

import msgspec

from changeling.formats.debezium_json.envelope import MONGODB, XTDB, YDB, Number, Source
from changeling.model import position
from changeling.model.change import Transaction
from changeling.model.errors import Rejected

_sequence = msgspec.json.Decoder(list[int | str | None]).decode

Parts = tuple[int, ...] | None
_REDO_RECORD = re.compile(r"0x([0-9a-fA-F]{1,80})\.([0-9a-fA-F]{1,80})\.([0-9a-fA-F]{1,80})")
"""A place in Oracle's redo log: sequence, block and offset, as in `0x000004.00000010.0010`."""
_ORDERED = frozenset({XTDB, YDB})
"""Connectors whose own numbers distinguish the changes of a row: the order inside the transaction is one of them, or not needed."""


def number(name: str, value: Number) -> int | None:
    """An integer, or one printed as text; raises `Rejected` on other text."""
    if value is None or isinstance(value, int):
        return value
    try:
        return int(value)
    except ValueError:
        raise Rejected(f"source.{name} is {value[:40]!r}, which is no integer") from None


def _postgresql(source: Source, order: int) -> Parts:
    if source.sequence is not None:
        try:
            last_commit, own = _sequence(source.sequence)
        except ValueError:
            raise Rejected(f"source.sequence is {source.sequence[:60]!r}: it must be two log positions") from None
        at = number("sequence", own)
        if at is not None:
            return number("sequence", last_commit) or 0, at
    at = number("lsn", source.lsn)
    return None if at is None else (at,)


def _mysql(source: Source, order: int) -> Parts:
    digits = (source.file or "").rpartition(".")[2]
    at = number("pos", source.pos)
    if at is None or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits), at, number("row", source.row) or 0


def _log_number(name: str, value: Number) -> int | None:
    """A log sequence number: hex digits in groups (`00000027:00000ac0:0002`), or an integer."""
    if isinstance(value, str) and ":" in value:
        try:
            return int(value.replace(":", ""), 16)
        except ValueError:
            raise Rejected(f"source.{name} is {value[:40]!r}, which is no log sequence number") from None
    return number(name, value)


def _sqlserver(source: Source, order: int) -> Parts:
    commit = _log_number("commit_lsn", source.commit_lsn)
    if commit is None:
        return None
    change = _log_number("change_lsn", source.change_lsn) or 0
    return commit, change, number("event_serial_no", source.event_serial_no) or 0


def _oracle(source: Source, order: int) -> Parts:
    scn, commit = number("scn", source.scn), number("commit_scn", source.commit_scn)
    if scn is None and commit is None:
        return None
    # A row of a snapshot has no commit of its own: the snapshot's SCN is used.
    return (scn if commit is None else commit) or 0, scn or 0, *_redo_record(source)


def _redo_record(source: Source) -> tuple[int, ...]:
    """The place of a change among those of one SCN: its redo record and its place in that; nothing where neither is given."""
    found = _REDO_RECORD.fullmatch(str(source.rs_id).strip())
    place = max(0, number("ssn", source.ssn) or 0)
    if found is not None:
        return *(int(part, 16) for part in found.groups()), place
    return (0, 0, 0, place) if place else ()


def _mongodb(source: Source, order: int) -> Parts:
    millis, at = number("ts_ms", source.ts_ms), number("ord", source.ord)
    if millis is None or at is None:
        return None
    inside = number("tord", source.tord)
    return (millis // 1000, at) if inside is None else (millis // 1000, at, inside)


def _xtdb(source: Source, order: int) -> Parts:
    transaction = number("tx_id", source.tx_id)
    return None if transaction is None else (transaction, order)


def _ydb(source: Source, order: int) -> Parts:
    step, transaction = number("step", source.step), number("txId", source.txId)
    return None if step is None or transaction is None else (step, transaction)


_BY_CONNECTOR: dict[str, Callable[[Source, int], Parts]] = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "mariadb": _mysql,
    "sqlserver": _sqlserver,
    "db2": _sqlserver,
    "informix": _sqlserver,
    "oracle": _oracle,
    MONGODB: _mongodb,
    XTDB: _xtdb,
    YDB: _ydb,
}


def position_of(source: Source, connector: str, transaction: Transaction | None) -> str | None:
    """The sortable position of an event, or None where its source has none."""
    if isinstance(source.position, str):
        position.decode(source.position)
        return source.position
    read = _BY_CONNECTOR.get(connector)
    order = 0 if transaction is None else transaction.order or 0
    parts = None if read is None else read(source, order)
    if parts is None:
        return None
    return position.encode(*parts) if connector in _ORDERED else position.encode(*parts, *_inside(transaction))


def _inside(transaction: Transaction | None) -> tuple[int, ...]:
    """The place inside a transaction, after a position which several of its changes may share; nothing where none is given."""
    if transaction is None or (transaction.total is None and transaction.order is None):
        return ()
    return max(0, transaction.total or 0), max(0, transaction.order or 0)
