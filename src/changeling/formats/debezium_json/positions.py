"""The position of an event in its source's log, by the connector that read it."""

import functools
import re
from collections.abc import Callable

import msgspec

from changeling.envelope.cells import Cell, Cells
from changeling.envelope.one import ONE
from changeling.formats.debezium_json.envelope import MONGODB, XTDB, YDB, Number, Source
from changeling.model import position
from changeling.model.change import Transaction
from changeling.model.errors import Rejected

_sequence = msgspec.json.Decoder(list[int | str | None]).decode

Parts = tuple[int, ...] | None
_REDO_RECORD = re.compile(r"0x([0-9a-fA-F]{1,80})\.([0-9a-fA-F]{1,80})\.([0-9a-fA-F]{1,80})")
"""A place in Oracle's redo log: sequence, block and offset, as in `0x000004.00000010.0010`."""
_PLACES = (
    *("lsn", "pos", "row", "commit_lsn", "change_lsn", "event_serial_no", "scn", "commit_scn"),
    *("ord", "tord", "ts_ms", "tx_id", "step", "txId"),
)
"""The members of `source` that positions are made of."""
_ORDERED = frozenset({XTDB, YDB})
"""Connectors whose own numbers distinguish the changes of a row: the order inside the transaction is one of them, or not needed."""


def number(name: str, value: Number) -> int | None:
    """An integer, or one printed as text; raises `Rejected` on other text."""
    found: int | None = ONE.integer(value, f"source.{name}")
    return found


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
    file, at, row = _mysql_log(ONE, source)
    return None if file is None or at is None else (file, at, row)


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


def position_of(cells: Cells, source: Source, transaction: Cell) -> Cell:
    """The sortable position of an event, or None where its source has none."""
    text = cells.as_text(source.position)
    if cells.branch(cells.present(text)):
        cells.check_position(text)
        return text
    connector = cells.common(cells.each(_lower, source.connector))
    if connector in _LOGS:
        own = _LOGS[connector](cells, source)
        found = cells.fields(transaction)
        places = [found.total, found.order] if cells.any(cells.present(found.id)) else []
        if cells.branch(cells.all_present((*own, *places))) and (cells.many or min(own) >= 0):
            return cells.position(*own, *(cells.at_least(place, 0) for place in places))
    return cells.each_row(functools.partial(_by_connector, connector), source, transaction)


def _lower(connector: str | None) -> str:
    return (connector or "").lower()


def _postgresql_log(cells: Cells, source: Source) -> tuple[Cell, ...]:
    return cells.captured(source.sequence, r'\["(?P<commit>[0-9]{1,18})","(?P<own>[0-9]{1,18})"\]')


def _mysql_log(cells: Cells, source: Source) -> tuple[Cell, ...]:
    (file,) = cells.captured(source.file, r"(?:.*\.)?(?P<number>[0-9]{1,18})")
    at, row = cells.integer(source.pos, "source.pos"), cells.integer(source.row, "source.row")
    return file, at, cells.first(row, 0)


_LOGS: dict[str, Callable[[Cells, Source], tuple[Cell, ...]]] = {
    "postgresql": _postgresql_log,
    "mysql": _mysql_log,
    "mariadb": _mysql_log,
}
"""The usual positions of the most common connectors; what is unusual is read as of any other."""


def _by_connector(connector: str, source: Source, transaction: Transaction | None) -> str | None:
    read = _BY_CONNECTOR.get(connector)
    order = 0 if transaction is None else transaction.order or 0
    parts = None if read is None else read(source, order)
    if parts is None:
        return None
    if min(parts) < 0:
        raise _negative(source)
    return position.encode(*parts) if connector in _ORDERED else position.encode(*parts, *_inside(transaction))


def _negative(source: Source) -> Rejected:
    """Names the member that makes a position negative."""
    for name in _PLACES:
        found = _log_number(name, getattr(source, name))
        if found is not None and found < 0:
            return Rejected(f"source.{name} is {found}: a position cannot be negative")
    other = "transaction.data_collection_order" if source.sequence is None else "source.sequence"
    return Rejected(f"{other}: a position cannot be negative")


def _inside(transaction: Transaction | None) -> tuple[int, ...]:
    """The place inside a transaction, after a position which several of its changes may share; nothing where none is given."""
    if transaction is None or (transaction.total is None and transaction.order is None):
        return ()
    return max(0, transaction.total or 0), max(0, transaction.order or 0)
