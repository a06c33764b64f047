"""`dataworks-message`: the messages that DataWorks writes to Kafka for a whole database."""

from changeling.formats.capabilities import carrying
from changeling.formats.dataworks_message.read import DataworksMessageRead, reader
from changeling.formats.dataworks_message.types import TYPES
from changeling.formats.dataworks_message.write import DataworksMessageWrite, writer
from changeling.formats.format import Format

FORMAT = Format(
    name="dataworks-message",
    summary="DataWorks' whole-database messages: schema and payload, marks, heartbeats and DDL; an update is two",
    read_options=DataworksMessageRead,
    write_options=DataworksMessageWrite,
    reader=reader,
    writer=writer,
    carries=carrying(
        *("insert", "update", "delete", "truncate", "begin", "commit", "barrier", "ddl", "before", "after"),
        *("key-change", "keyless", "composite-key", "commit_time"),
        *("table", "catalog", "schema", "null", "null-text", "binary"),
    ),
    types=TYPES,
    position="sequence id, half",
    halves=True,
    signs=(("payload.op", "payload.timestamp"),),
)
