"""`debezium-json`: Debezium's change events as JSON, of every connector, and the dialects that follow its envelope."""

from changeling.formats.capabilities import carrying
from changeling.formats.debezium_json.read import DebeziumRead, reader
from changeling.formats.debezium_json.source_block import extraction_time
from changeling.formats.debezium_json.types import TYPES
from changeling.formats.debezium_json.write import DebeziumWrite, writer
from changeling.formats.format import Format

_EVENTS = (("op", "source"), ("op", "before"), ("op", "after"))
_SCHEMA_CHANGES = (("source", "ddl"), ("source", "tableChanges"), ("source", "historyRecord"))
_BOUNDARIES = (("status", "id", "ts_ms"), ("status", "id", "event_count"))

FORMAT = Format(
    name="debezium-json",
    summary="Debezium's change events, with and without the schema part; XTDB's, YDB's and Arcion's forms of them too",
    read_options=DebeziumRead,
    write_options=DebeziumWrite,
    reader=reader,
    writer=writer,
    carries=carrying(all_but=("barrier", "keys-only", "placeholder")),
    types=TYPES,
    position="by connector: log positions, file and offset, or SCNs; the place of arrival where it is unknown",
    extraction_time=extraction_time,
    snapshot_mark="$.envelope.source.snapshot",
    counts_transactions=True,
    feed_modes=("NEW_IMAGE", "NEW_AND_OLD_IMAGES"),
    # What gives an event away, bare or in each wrapper. Heartbeats, a time and nothing else, show nothing.
    signs=tuple(
        tuple(f"{inside}{name}" for name in sign)
        for inside in ("", "payload.", "value.", "value.payload.")
        for sign in (*_EVENTS, *_SCHEMA_CHANGES, *_BOUNDARIES)
    ),
    yields_to=("xtdb", "ydb-debezium", "dataworks-message"),
)
