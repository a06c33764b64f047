"""Requests for new snapshots of tables of PostgreSQL sources, to the active run or the next one. Needs no Spark."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from changeling.model.errors import UsageError
from changeling.model.table import TableName
from changeling.pipelines.loading import LoadedPipeline
from changeling.pipelines.server_sources import capture_settings, check_has_database, postgres_sources, requests_of
from changeling.replicas.table_lookup import WantedTable

if TYPE_CHECKING:
    from changeling.pipelines.verification import Verified


def request_snapshots(loaded: LoadedPipeline, wanted: Sequence[str]) -> list[str]:
    """Requests new snapshots of tables; returns their names. Raises `UsageError` where the pipeline reads no database."""
    check_has_database(loaded, "snapshot reads tables of a database again")
    check_exist(loaded, wanted)
    from changeling.sources.postgres_probe import ServerProbe

    known: dict[str, list[TableName]] = {}
    for source in postgres_sources(loaded):
        with ServerProbe(capture_settings(loaded, source)) as server:
            known[source.name] = server.tables()
    check_known([table for tables in known.values() for table in tables], wanted)
    requested = []
    for source in postgres_sources(loaded):
        tables = [table.spelled() for table in chosen(known[source.name], wanted)]
        requests_of(loaded, source).ask(tables)
        requested += tables
    return requested


def request_repair(loaded: LoadedPipeline, found: "Sequence[Verified]") -> None:
    """Requests new snapshots of the tables that differ."""
    for source in postgres_sources(loaded):
        tables = [one.table.spelled() for one in found if one.source == source.name and one.different]
        if tables:
            requests_of(loaded, source).ask(tables)


def chosen(known: list[TableName], wanted: Sequence[str]) -> list[TableName]:
    """The tables that match a wanted pattern; all of them where none is wanted."""
    from changeling.postgres import catalog

    return [table for table in known if not wanted or any(catalog.matches(text, table) for text in wanted)]


def check_exist(loaded: LoadedPipeline, wanted: Sequence[str]) -> None:
    """Raises `UsageError` for a pattern that matches no table of any database; nothing is altered to find out."""
    if not wanted:
        return
    from changeling.sources.postgres_probe import matching_tables

    sources = postgres_sources(loaded)
    check_known([table for source in sources for table in matching_tables(capture_settings(loaded, source))], wanted)


def check_known(known: list[TableName], wanted: Sequence[str]) -> None:
    """Raises `UsageError` for a pattern that matches no table of any source."""
    for text in wanted:
        if not chosen(known, [text]):
            hint = WantedTable(TableName.parse(text)).nearest(known)
            raise UsageError(f"there is no table {text!r} among those captured; {hint}")
