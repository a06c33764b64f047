"""The status of a pipeline: what each source has read, its lag, and its last error. Needs no Spark."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from changeling.iceberg.lock import is_held, last_holder
from changeling.iceberg.reader import Tables
from changeling.log import log_tables
from changeling.log.batch_plans import BatchPlan, stored_plans
from changeling.log.source_state import SourceState, stored_state
from changeling.model import times
from changeling.model.errors import ChangelingError
from changeling.model.extras import naming_extras
from changeling.pipelines.definition import PostgresSource, PostgresTarget, Source
from changeling.pipelines.feed_status import feed_status
from changeling.pipelines.feed_sync import definitions_of
from changeling.pipelines.lag import Reading, behind, lag_of, unmerged_seconds
from changeling.pipelines.lakehouse import lock_file, tables_of
from changeling.pipelines.loading import LoadedPipeline
from changeling.pipelines.server_sources import capture_settings
from changeling.replicas.points import Point, Points, points_of
from changeling.replicas.replica_reader import Identity, Replica, replicas

_NANOS = 1_000_000_000


def status(loaded: LoadedPipeline) -> list[dict[str, Any]]:
    """One object for each source, then for each table with a known schema, each feed, each target."""
    tables = tables_of(loaded)
    state = stored_state(tables, log_tables.CHANGES)
    file = lock_file(loaded)
    holder = last_holder(file)
    errors = {} if holder is None else holder.errors
    ended = None if holder is None else holder.error
    running = is_held(file)
    names = [source.name for source in loaded.definition.sources]
    names += [name for name in state.sources if name not in names]
    held = {one.identity: one for one in replicas(tables, loaded.definition.name) if one.identity.kind == "rows"}
    known = _tables(tables, held)
    left_out = {} if holder is None else holder.left_out
    rows = [_source(name, state.of(name), errors.get(name) or ended, running) for name in names]
    for row in rows:
        row["left_out"] = left_out.get(row["name"], {})
    points = points_of(tables)
    for row in rows:
        row |= _freshness(points.last, row["name"])
    behind_now: dict[str, dict[str, Any]] = {}
    plans: dict[str, list[BatchPlan]] = {name: [] for name in names}
    for name, plan in stored_plans(tables):
        plans.setdefault(name, []).append(plan)
    complete = {} if holder is None else holder.complete
    for source in loaded.definition.sources:
        name, batch = source.name, state.of(source.name).batch
        reading = Reading.of(plans[name], batch, complete.get(name), running=running)
        behind_now[name] = _behind(loaded, source, reading)
    for row in rows:
        own = [table for table in known if table["source"] == row["name"] and table["applied"] is not None]
        row |= {
            count: sum(table[count] for table in own) if own else None
            for count in ("applied", "ties", "stale", "aside")
        }
        merged = points.last.of(row["name"]).last_complete_batch
        row["replica_behind_seconds"] = unmerged_seconds(plans[row["name"]], row["batch"], merged)
        row |= behind_now.get(row["name"], {})
    feeds = feed_status(tables, loaded.definition.name, definitions_of(loaded).all(), points, held, errors)
    targets = [_target(loaded, target, points, errors.get(target.name)) for target in loaded.definition.targets]
    return [*rows, *known, *feeds, *targets]


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
        "ties": None,
        "stale": None,
        "lag_seconds": _seconds(state.log_lag),
        "extraction_lag_seconds": _seconds(state.extraction_lag),
        "commit_time": None if state.commit_time is None else times.to_text(state.commit_time),
        "ingested_at": None if state.ingested_at is None else times.to_text(state.ingested_at * 1000),
        "last_error": error,
    }


def _freshness(last: Point, source: str) -> dict[str, Any]:
    """Up to which commit the replicas have a source, and how long after it they had it."""
    committed = last.of(source).commit_time
    if committed is None:
        return {"replica_commit_time": None, "replica_lag_seconds": None}
    made = int(last.made_at.timestamp() * 1_000_000) * 1_000
    return {"replica_commit_time": times.to_text(committed), "replica_lag_seconds": _seconds(made - committed)}


def _behind(loaded: LoadedPipeline, source: Source, reading: Reading) -> dict[str, Any]:
    """The part of a source that is not in the log now, and the WAL that its server retains for it."""
    found = lag_of(loaded, source, reading)
    row = {f"behind_{name}": getattr(found, name) for name in ("seconds", "records", "files", "bytes", "error")}
    if not isinstance(source, PostgresSource):
        return row
    slot = capture_settings(loaded, source).slot
    return {**row, "slot": slot, "slot_lag_bytes": found.bytes, "slot_error": found.error}


def _target(loaded: LoadedPipeline, target: PostgresTarget, points: Points, error: str | None) -> dict[str, Any]:
    """The point of a target; if it cannot be reached, that is unknown, and `reachable` is false."""
    try:
        with naming_extras():
            from changeling.targets.target_state import fetch_status

            found, reachable = fetch_status(target.url, loaded.definition.name, target.name), True
    except ChangelingError as unreachable:
        found, reachable, error = None, False, loaded.redacted(str(unreachable))
    return {
        "kind": "target",
        "name": target.name,
        "reachable": reachable,
        "point": None if found is None else found.point,
        "aside": None if found is None else found.quarantined,
        "lag_seconds": None if found is None else (found.applied_at - found.made_at).total_seconds(),
        "lag_points": None if found is None else behind(points, found.point)[0],
        "behind_seconds": None if found is None else behind(points, found.point)[1],
        "applied_at": None if found is None else found.applied_at.isoformat(),
        **dict.fromkeys(("read", "accepted", "rejected", "applied", "late", "ties", "stale")),
        "last_error": error,
    }


def _seconds(nanos: int | None) -> float | None:
    return None if nanos is None else nanos / _NANOS


def _tables(tables: Tables, held: Mapping[Identity, Replica]) -> list[dict[str, Any]]:
    """Each table with the newest version of its schema, by id, and the counts of its replica."""
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(tables.rows(log_tables.SCHEMAS).to_pylist(), key=lambda row: int(row["id"])):
        newest[row["source"], *row["table"].values()] = row
    merged = {_place(identity): one.state for identity, one in held.items()}
    stale, aside = _quarantined(tables)
    return [
        {
            "kind": "table",
            "name": ".".join(part for part in row["table"].values() if part is not None),
            "source": row["source"],
            "schema_id": row["id"],
            "version": row["version"],
            "origin": row["origin"],
            "status": row["status"],
            "applied": merged[place].applied if place in merged else None,
            "late": merged[place].late if place in merged else None,
            "ties": merged[place].ties if place in merged else None,
            "stale": stale[place] if place in merged else None,
            "aside": aside[place] if place in merged else None,
            "point": merged[place].point if place in merged else None,
            **dict.fromkeys(("read", "accepted", "rejected", "lag_seconds", "last_error")),
        }
        for place, row in newest.items()
    ]


def _place(identity: Identity) -> tuple[Any, ...]:
    table = identity.table
    return identity.source, table.catalog, table.schema, table.name


def _quarantined(tables: Tables) -> tuple[Counter[tuple[Any, ...]], Counter[tuple[Any, ...]]]:
    """How many rows of each table are stale, and how many values and changes are quarantined."""
    stale: set[tuple[Any, ...]] = set()
    aside: Counter[tuple[Any, ...]] = Counter()
    for row in tables.rows(log_tables.QUARANTINE, columns=("source", "table", "row", "column", "value")).to_pylist():
        place = (row["source"], *row["table"].values())
        if row["value"] is None and row["column"] is None:
            stale.add((*place, row["row"]))
        else:
            aside[place] += 1
    return Counter(one[:-1] for one in stale), aside
