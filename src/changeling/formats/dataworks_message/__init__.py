"""`dataworks-message`: the messages that DataWorks writes to Kafka for a whole database."""

from changeling.formats.capabilities import carrying
from changeling.formats.dataworks_message.decode import DataworksMessageRead, decoder
from changeling.formats.dataworks_message.encode import DataworksMessageWrite, encoder
from changeling.formats.dataworks_message.types import TYPES
from changeling.formats.format import Format

FORMAT = Format(
    name="dataworks-message",
    summary="DataWorks' whole-database messages: schema and payload, marks, heartbeats and DDL; an update is two",
    read_options=DataworksMessageRead,
    write_options=DataworksMessageWrite,
    decoder=decoder,
    encoder=encoder,
    carries=carrying(
        "insert",
        "update",
        "delete",
        "truncate",
        "begin",
        "commit",
        "barrier",
        "ddl",
        "before",
        "after",
        "key-change",
        "keyless",
        "composite-key",
        "commit_time",
        "table",
        "catalog",
        "schema",
        "null",
        "null-text",
        "binary",
    ),
    types=TYPES,
    position="sequence id, half",
    halves=True,
    signs=(("payload.op", "payload.timestamp"),),
)
