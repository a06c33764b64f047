"""What the sources of a pipeline share: the tables, the registry, the plans, and how far each source is."""

from datetime import UTC, datetime

from changeling.iceberg.failpoints import reach
from changeling.iceberg.lake import Lake
from changeling.log import layout
from changeling.log.batch_plans import Plans
from changeling.log.batch_stats import BatchStats
from changeling.log.schema_registry import Registry, Version
from changeling.log.source_state import State, stored_state
from changeling.model.errors import ChangelingError
from changeling.model.layout import tables_array


class Log:
    """One pipeline's log, as its writer process holds it. Its tables exist already."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.registry = Registry()
        self.stats: dict[str, dict[int, BatchStats]] = {}
        """The statistics of batches that the replicas do not have yet, by source and number."""
        self.looked: dict[str, datetime] = {}
        """By source, the time of the last poll up to which everything is in the log."""
        self.complete: dict[str, datetime] = {}
        """By source, the time up to which all that it had is in the log; never later than that of its last look."""
        self.reload()

    def reload(self) -> None:
        """Reads again what the tables have: after a failure it is unknown which commits succeeded."""
        self.registry.versions = Registry.from_rows(self.lake.rows(layout.SCHEMAS).to_pylist()).versions
        self.plans = Plans(self.lake)
        self.state: State = stored_state(self.lake, layout.CHANGES)
        self.reject_state: State = stored_state(self.lake, layout.REJECTS)

    def note_look(self, source: str, moment: datetime, *, all_read: bool, ends: bool) -> None:
        """What a source had at a time is in the log now: all of it, and the ends of its transactions as far as it had them."""
        if all_read:
            self.complete[source] = moment
        if ends:
            self.looked[source] = moment

    def register(self, versions: list[Version]) -> None:
        """Commits new versions of schemas."""
        if not versions:
            return
        reach("schemas.before")
        moment = datetime.now(UTC)
        rows: list[dict[str, object]] = [
            {
                **{
                    name: getattr(version, name) for name in ("id", "source", "version", "position", "origin", "status")
                },
                "table": tables_array([version.table])[0].as_py(),
                "schema": version.schema.to_json(),
                "note": version.note,
                "registered_at": moment,
            }
            for version in versions
        ]
        try:
            self.lake.append_rows(layout.SCHEMAS, rows, moment)
        except ChangelingError:
            self.registry.forget(versions)
            raise
        reach("schemas.after")

    def furthest(self, version: Version) -> str | None:
        """The last position in the log of changes that carry a version."""
        found = self.lake.frame(layout.CHANGES).where(f"schema_id = {version.id}").agg({"position": "max"}).first()
        return None if found is None else found[0]
