"""How a pipeline does: what each source brought, how far behind it is, what went wrong last. Needs no Spark."""

from typing import Any

from changeling.log import layout
from changeling.log.lock import is_held, last_holder
from changeling.log.state import SourceState
from changeling.model import times
from changeling.pipelines.lakehouse import lock_file, tables_of
from changeling.pipelines.loading import Loaded

_NANOS = 1_000_000_000


def status(loaded: Loaded) -> list[dict[str, Any]]:
    """One object a source, then one a table of which a schema is known."""
    tables = tables_of(loaded)
    state = tables.state(layout.CHANGES)
    file = lock_file(loaded)
    holder = last_holder(file)
    errors = {} if holder is None else holder.errors
    ended = None if holder is None else holder.error
    running = is_held(file)
    names = [source.name for source in loaded.definition.sources]
    names += [name for name in state.sources if name not in names]
    rows = [_source(name, state.of(name), errors.get(name) or ended, running) for name in names]
    return rows + _tables(tables.rows(layout.SCHEMAS).to_pylist())


def _source(name: str, state: SourceState, error: str | None, running: bool) -> dict[str, Any]:
    return {
        "kind": "source",
        "name": name,
        "running": running,
        "batch": state.batch,
        "read": state.read,
        "accepted": state.accepted,
        "rejected": state.rejected,
        "changes": state.changes,
        "applied": None,
        "late": state.late,
        "ahead": state.ahead,
        "stale": None,
        "lag_seconds": _seconds(state.log_lag),
        "extraction_lag_seconds": _seconds(state.extraction_lag),
        "commit_time": None if state.commit_time is None else times.to_text(state.commit_time),
        "ingested_at": None if state.ingested_at is None else times.to_text(state.ingested_at * 1000),
        "last_error": error,
    }


def _seconds(nanos: int | None) -> float | None:
    return None if nanos is None else nanos / _NANOS


def _tables(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest version of each table's schema, by number."""
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: int(row["id"])):
        newest[row["source"], *row["table"].values()] = row
    return [
        {
            "kind": "table",
            "name": ".".join(part for part in row["table"].values() if part is not None),
            "source": row["source"],
            "schema_id": row["id"],
            "version": row["version"],
            "origin": row["origin"],
            "status": row["status"],
        }
        for row in newest.values()
    ]
