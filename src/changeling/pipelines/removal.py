"""Removes a pipeline: what it has on database servers, then its tables."""

from changeling.log import layout
from changeling.model.errors import NotAllDropped
from changeling.pipelines.lakehouse import lake_of
from changeling.pipelines.loading import Loaded
from changeling.pipelines.postgres_sources import capture_settings, postgres_sources
from changeling.pipelines.target_sync import targets_of


def remove(loaded: Loaded) -> list[str]:
    """Drops all of it, and returns the names; raises `NotAllDropped` where something remains on a server."""
    dropped, left = [], []
    lake = lake_of(loaded)
    written = lake if lake.has(layout.CHANGES) else None
    for source in postgres_sources(loaded):
        # PostgreSQL's driver is an extra.
        from changeling.sources import postgres_removal

        removed = postgres_removal.remove(capture_settings(loaded, source, written))
        dropped += removed.dropped
        left += removed.left
    for target in targets_of(loaded, lake):
        dropped += [f"{name} of target {target.name}" for name in target.remove()]
    for part in ("replica", "feeds"):
        dropped += lake.in_namespace(f"{loaded.definition.name}_{part}").remove()
    dropped += lake.remove()
    if left:
        lines = [f"dropped {', '.join(dropped) or 'nothing'}; let an administrator of the server run:", *left]
        raise NotAllDropped("\n  ".join(lines))
    return dropped
