"""Which state of a table is requested: now, as of a time, after a transaction, at a point, or on top of a base."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict, TypeVar

from changeling.model import times
from changeling.model.errors import Rejected, UsageError

if TYPE_CHECKING:
    from changeling.replicas.as_of import State, States
    from changeling.replicas.table_lookup import WantedTable

Rows = TypeVar("Rows")


class FullLoad(TypedDict, total=False):
    """A table or a file of a full load, on top of which the log's changes are put: all, or those strictly before a time."""

    base: str | None
    before: str | datetime | None


@dataclass(frozen=True)
class AskedState:
    """One of these, or none for now; `before` is only for `base`. Raises `UsageError` where several are given."""

    as_of: str | datetime | None = None
    as_of_transaction: str | int | None = None
    point: int | None = None
    base: str | None = None
    before: str | datetime | None = None

    def __post_init__(self) -> None:
        given = (self.as_of, self.as_of_transaction, self.point, self.base)
        if sum(one is not None for one in given) > 1:
            raise UsageError("choose one of a time, a transaction, a point and a base")
        if self.before is not None and self.base is None:
            raise UsageError("`before` limits the changes on top of a base: name a base, or use `as_of`")
        for timestamp in (self.as_of, self.before):
            if timestamp is not None:
                _nanos(timestamp)

    def of(self, states: "States[Rows]", table: "WantedTable") -> "State[Rows]":
        """The requested state of a table."""
        if self.base is not None:
            return states.from_base(table, self.base, None if self.before is None else _nanos(self.before))
        if self.as_of is not None:
            return states.as_of(table, _nanos(self.as_of))
        if self.as_of_transaction is not None:
            return states.as_of_transaction(table, str(self.as_of_transaction))
        return states.now(table) if self.point is None else states.at_point(table, self.point)


NOW = AskedState()


def _nanos(text: str | datetime) -> int:
    """The nanoseconds of a timestamp; raises `UsageError` where it has no offset or is invalid."""
    if isinstance(text, datetime):
        text = text.isoformat()
    try:
        nanos, has_offset = times.parse(text)
    except Rejected as error:
        raise UsageError(f"--as-of {error}") from None
    if not has_offset:
        whole = text if len(text) > len("2024-01-01") else f"{text}T00:00:00"
        raise UsageError(f"--as-of {text}: write the offset as well, as in {whole}Z")
    return nanos
